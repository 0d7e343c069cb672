#include "run/share/seat.h"

#include <array>
#include <utility>

namespace heddle {
namespace {

constexpr std::array<std::pair<ShareManner, std::string_view>, 3> kNames = {
    {{ShareManner::kAlone, "alone"},
     {ShareManner::kTurns, "turns"},
     {ShareManner::kTogether, "together"}}};

}  // namespace

std::string_view NameOf(ShareManner manner) {
  for (const auto& [value, name] : kNames) {
    if (value == manner) return name;
  }
  return "unknown";
}

std::optional<ShareManner> ParseShareManner(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Json RankNotesToJson(const RankNotes& notes) {
  return {{"hashes", notes.hashes},
          {"step_ends", notes.step_ends},
          {"turns", notes.turns},
          {"held", notes.held},
          {"deadlines", notes.deadlines},
          {"missed", notes.missed},
          {"longest_ratio", notes.longest_ratio},
          {"work", notes.work},
          {"work_took", notes.work_took}};
}

Result<RankNotes> RankNotesFromJson(const JsonField& json) {
  RankNotes notes;
  HEDDLE_ASSIGN(const JsonField hashes, json.Array("hashes"));
  for (const Json& hash : hashes.json()) notes.hashes.push_back(hash.get<uint64_t>());
  HEDDLE_ASSIGN(notes.step_ends, json.Ints("step_ends", 0, INT64_MAX));
  HEDDLE_ASSIGN(notes.turns, json.Int("turns", 0, INT64_MAX));
  HEDDLE_ASSIGN(notes.held, json.Ints("held", 0, INT64_MAX));
  HEDDLE_ASSIGN(notes.deadlines, json.Int("deadlines", 0, INT64_MAX));
  HEDDLE_ASSIGN(notes.missed, json.Int("missed", 0, INT64_MAX));
  HEDDLE_ASSIGN(notes.longest_ratio, json.Number("longest_ratio"));
  HEDDLE_ASSIGN(notes.work, json.Number("work"));
  HEDDLE_ASSIGN(notes.work_took, json.Number("work_took"));
  return notes;
}

}  // namespace heddle
