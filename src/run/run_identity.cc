#include "run/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/version.h"
#include "run/departure.h"
#include "run/rank_attendance.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/told_error.h"

namespace heddle {
namespace {

// Of each process alone: paths, where what lies there is compared; what the first process does with
// files; how long it waits for others.
constexpr std::array<std::string_view, 14> kOwn = {
    "plan", "profile", "data",        "directory",   "resume",      "override",     "weights",
    "keep", "port",    "meet_within", "stuck_after", "secret_file", "silent_after", "interface"};

constexpr const char* kAgreed = "agreed";
constexpr const char* kHint = "give all devices the same heddle, plan and options";

std::string KeyOf(int32_t rank) { return fmt::format("identity{}", rank); }

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

// Somebody has left and will not come, or nobody has.
Status SeeWhoLeft(StoreClient& store, int32_t ranks,
                  const std::function<std::string(int32_t rank)>& name) {
  HEDDLE_ASSIGN(const std::optional<Departure> left, LookWhoLeft(store, ranks));
  if (!left) return Ok();
  return Error{ErrorKind::kRunFailed, name(left->rank),
               left->error ? "left before the meeting: " + left->error->ToString()
                           : "is gone: it ended or was killed before the meeting",
               ""};
}

// How often who waits looks whether somebody has left.
constexpr std::chrono::milliseconds kGlance{200};

std::chrono::milliseconds Until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// False: it did not come in time. An error, if somebody leaves before.
Result<bool> Await(StoreClient& store, const std::string& key, int32_t ranks,
                   const std::function<std::string(int32_t rank)>& name,
                   std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const std::chrono::milliseconds left = Until(deadline);
    HEDDLE_ASSIGN(const bool came, store.Wait({key}, std::min(left, kGlance)));
    if (came) return true;
    if (const Status all_there = SeeWhoLeft(store, ranks, name); !all_there.ok()) {
      // Who tells something and leaves tells it before he leaves.
      HEDDLE_ASSIGN(const bool told, store.Check({key}));
      return told ? Result<bool>(true) : all_there.error();
    }
    if (left.count() == 0) return false;
  }
}

// "did not come", as in: within 60 s.
Error TooLate(const std::string& name, const char* what, std::chrono::milliseconds limit) {
  return {ErrorKind::kRunFailed, name,
          fmt::format("{} within {:.3g} s", what, std::chrono::duration<double>(limit).count()),
          "have all devices started, with the same address and port? --meet-within waits longer"};
}

// The first rank's part: an error, or nothing.
Status CompareAll(StoreClient& store, int32_t ranks, const RunIdentity& mine,
                  const std::function<std::string(int32_t rank)>& name,
                  std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (int32_t rank = 1; rank < ranks; ++rank) {
    HEDDLE_ASSIGN(const bool came, Await(store, KeyOf(rank), ranks, name, deadline));
    if (!came) {
      HEDDLE_ASSIGN(const bool is_here, store.Check({HereKey(rank)}));
      return TooLate(name(rank), is_here ? "was there, but not ready" : "did not come", limit);
    }
    HEDDLE_ASSIGN(const std::optional<std::string> text, store.Look(KeyOf(rank)));
    const std::optional<RunIdentity> other = ParseIdentity(text.value_or(""));
    if (!other) return BadInput(name(rank), "does not say what it is", kHint);
    if (const auto difference = Difference(mine, *other, name(0))) {
      return BadInput(name(rank), *difference, kHint);
    }
  }
  return Ok();
}

// The others' part: what the first has to say to them.
Result<std::string> AskTheFirst(StoreClient& store, int32_t rank, int32_t ranks,
                                const RunIdentity& mine,
                                const std::function<std::string(int32_t rank)>& name,
                                std::chrono::milliseconds limit) {
  HEDDLE_RETURN_IF_ERROR(store.Set(KeyOf(rank), PrintIdentity(mine)));
  const auto deadline = std::chrono::steady_clock::now() + limit + std::chrono::seconds(5);
  HEDDLE_ASSIGN(const bool came, Await(store, kAgreed, ranks, name, deadline));
  if (!came) return TooLate(name(0), "was there, but not ready", limit);
  return store.Get(kAgreed, limit);
}

// The store goes with the first.
Error WithoutTheFirst(const Error& error, const std::string& first) {
  if (error.kind != ErrorKind::kRunFailed || error.where != "store") return error;
  return {ErrorKind::kRunFailed, first,
          "is gone: it ended or was killed before the meeting: " + error.what, ""};
}

}  // namespace

Result<RunIdentity> IdentityOf(const RunConfig& config, const std::string& plan_hash, DType dtype) {
  RunIdentity identity;
  uint64_t seed = 1;
  std::string checkpoint = "none";
  if (!config.resume.empty()) {
    HEDDLE_ASSIGN(const ResumePoint point, FindResumePoint(config.resume));
    HEDDLE_ASSIGN(const CheckpointInfo info, LoadCheckpointInfo(point.checkpoint));
    seed = info.seed;
    checkpoint = fmt::format("step {} with tensors {}", info.step, info.tensors_hash);
  }
  identity.parts = {{"heddle", kVersion},
                    {"the plan", plan_hash},
                    {"the checkpoint", checkpoint},
                    {"--data", config.data.substr(0, config.data.find(':'))}};
  RunConfig complete = config;
  complete.seed = config.seed.value_or(seed);
  complete.dtype = dtype;
  const Json options = RunConfigToJson(complete);
  for (const auto& [key, value] : options.items()) {
    if (std::find(kOwn.begin(), kOwn.end(), key) != kOwn.end()) continue;
    identity.parts.emplace_back(key == "data_hash" ? "the data" : OptionOf(key), TextOf(value));
  }
  return identity;
}

std::string PrintIdentity(const RunIdentity& identity) {
  Json json = Json::array();
  for (const auto& [name, value] : identity.parts) json.push_back({name, value});
  return JsonText(json);
}

std::optional<RunIdentity> ParseIdentity(std::string_view text) {
  constexpr size_t kLongest = 1 << 16;
  if (text.size() > kLongest) return std::nullopt;
  const Json json = ParseJsonOrDiscard(text);
  if (!json.is_array()) return std::nullopt;
  RunIdentity identity;
  for (const Json& part : json) {
    if (!part.is_array() || part.size() != 2 || !part[0].is_string() || !part[1].is_string()) {
      return std::nullopt;
    }
    identity.parts.emplace_back(part[0], part[1]);
  }
  return identity;
}

std::optional<std::string> Difference(const RunIdentity& first, const RunIdentity& other,
                                      const std::string& first_name) {
  if (first == other) return std::nullopt;
  std::vector<std::string> differences;
  for (const auto& [name, value] : first.parts) {
    const auto same =
        std::find_if(other.parts.begin(), other.parts.end(),
                     [&, &name = name](const auto& part) { return part.first == name; });
    const std::string theirs = same == other.parts.end() ? "unknown" : same->second;
    if (theirs == value) continue;
    const auto text = [](const std::string& some) { return some.empty() ? "none" : some; };
    differences.push_back(
        fmt::format("{} is {}, but {} at {}", name, text(theirs), text(value), first_name));
  }
  if (differences.empty()) return fmt::format("knows other options than {}", first_name);
  return Join(differences, "; ");
}

Status AgreeOnIdentity(StoreClient& store, int32_t rank, int32_t ranks, const RunIdentity& mine,
                       const std::function<std::string(int32_t rank)>& name,
                       std::chrono::milliseconds limit) {
  if (rank == 0) {
    const Status agreed = CompareAll(store, ranks, mine, name, limit);
    HEDDLE_RETURN_IF_ERROR(store.Set(kAgreed, agreed.ok() ? "" : TellError(agreed.error())));
    return agreed;
  }
  const Result<std::string> agreed = AskTheFirst(store, rank, ranks, mine, name, limit);
  if (!agreed.ok()) return WithoutTheFirst(agreed.error(), name(0));
  if (agreed.value().empty()) return Ok();
  const std::optional<Error> error = HearError(agreed.value());
  return error ? *error : BadInput(name(0), "does not say why it refuses", kHint);
}

}  // namespace heddle
