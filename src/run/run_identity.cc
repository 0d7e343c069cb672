#include "run/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_field.h"
#include "base/text.h"
#include "base/version.h"
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
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The first rank's part: an error, or nothing.
Status CompareAll(StoreClient& store, int32_t ranks, const RunIdentity& mine,
                  const std::function<std::string(int32_t rank)>& name,
                  std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (int32_t rank = 1; rank < ranks; ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    HEDDLE_ASSIGN(const bool came,
                  store.Wait({KeyOf(rank)}, std::max(left, std::chrono::milliseconds(0))));
    if (!came) {
      return Error{ErrorKind::kRunFailed, name(rank),
                   fmt::format("did not come within {:.3g} s, so that device 0 cannot reach the "
                               "others",
                               std::chrono::duration<double>(limit).count()),
                   "have all devices started, with the same address and port? --meet-within waits "
                   "longer"};
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
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<RunIdentity> ParseIdentity(std::string_view text) {
  constexpr size_t kLongest = 1 << 16;
  if (text.size() > kLongest) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
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
    if (agreed.ok()) return Ok();
    // Before the store goes with this process.
    for (int32_t other = 1; other < ranks; ++other) {
      constexpr std::chrono::milliseconds kToHear{1000};
      const auto told = fmt::format("told{}", other);
      if (const auto heard = store.Wait({told}, kToHear); !heard.ok() || !heard.value()) break;
    }
    return agreed.error();
  }
  HEDDLE_RETURN_IF_ERROR(store.Set(KeyOf(rank), PrintIdentity(mine)));
  HEDDLE_ASSIGN(const std::string agreed, store.Get(kAgreed, limit + std::chrono::seconds(5)));
  HEDDLE_RETURN_IF_ERROR(store.Set(fmt::format("told{}", rank), ""));
  if (agreed.empty()) return Ok();
  const std::optional<Error> error = HearError(agreed);
  return error ? *error : BadInput(name(0), "does not say why it refuses", kHint);
}

}  // namespace heddle
