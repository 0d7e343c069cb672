#include "run/resumed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "run/data/data_source.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"

namespace heddle {
namespace {

// Never the run's: they say what to do with it.
constexpr std::array<std::string_view, 5> kOwn = {"directory", "resume", "override", "secret_file",
                                                  "interface"};
// Not the same run any more.
constexpr std::array<std::string_view, 3> kDecisive = {"seed", "validation", "dtype"};

bool Has(const auto& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string TextOf(const Json& value) {
  if (value.is_null() || value == "") return "none";
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

std::string Change(std::string_view key, const Json& before, const Json& now) {
  return fmt::format("{} {} → {}", OptionOf(key).substr(2), TextOf(before), TextOf(now));
}

Error NeedsOverride(std::string where, std::string what, std::string_view instead) {
  return BadInput(std::move(where), std::move(what),
                  fmt::format("{}; --override goes on all the same", instead));
}

// The options of the run, with those that were given in their places.
class Merge {
 public:
  Merge(const RunConfig& asked, const std::vector<std::string>& given, ResumePoint point)
      : asked_(asked),
        asked_json_(RunConfigToJson(asked)),
        given_(given),
        point_(std::move(point)) {}

  Result<ResumedRun> Run() {
    HEDDLE_ASSIGN(const CheckpointInfo info, LoadCheckpointInfo(point_.checkpoint));
    HEDDLE_RETURN_IF_ERROR(ReadOld());
    // As it really was, whatever it followed from.
    merged_["seed"] = info.seed;
    merged_["dtype"] = NameOf(info.dtype);
    for (const std::string& key : given_) HEDDLE_RETURN_IF_ERROR(Take(key));
    for (const std::string_view key : kOwn)
      merged_[std::string(key)] = asked_json_[std::string(key)];
    HEDDLE_RETURN_IF_ERROR(LookAtData());
    HEDDLE_RETURN_IF_ERROR(ChoosePlan());
    HEDDLE_ASSIGN(resumed_.config, RunConfigFromJson(JsonField(merged_, where_)));
    if (resumed_.config.steps < info.step) {
      return BadInput(
          "--steps",
          fmt::format("{} are fewer than the {} done already", resumed_.config.steps, info.step),
          "--steps counts from the beginning of the run");
    }
    return std::move(resumed_);
  }

 private:
  Status ReadOld() {
    if (point_.run.empty()) {  // a checkpoint by itself: what was not given has its default
      merged_ = asked_json_;
      where_ = "run configuration";
      return Ok();
    }
    HEDDLE_ASSIGN(const RunDirectory directory, RunDirectory::Open(point_.run));
    HEDDLE_ASSIGN(merged_, directory.ReadConfig());
    merged_.erase("schema");
    where_ = directory.config_path();
    known_data_ = merged_.value("data", std::string("synthetic"));
    known_hash_ = merged_.value("data_hash", std::string());
    return Ok();
  }

  Status Take(const std::string& key) {
    if (Has(kOwn, key) || key == "plan" || key == "data") return Ok();
    const Json& now = asked_json_[key];
    const Json before = merged_.value(key, Json());
    if (now == before) return Ok();
    if (Has(kDecisive, key) && !asked_.may_override) {
      return NeedsOverride(
          OptionOf(key),
          fmt::format("{} is not that of {}, {}", TextOf(now), asked_.resume, TextOf(before)),
          "leave it out to go on with the run's");
    }
    if (!point_.run.empty()) resumed_.changes.push_back(Change(key, before, now));
    merged_[key] = now;
    return Ok();
  }

  // The same bytes under another name are the same data.
  Status LookAtData() {
    if (Has(given_, "data")) merged_["data"] = asked_.data;
    const std::string data = merged_.value("data", std::string("synthetic"));
    HEDDLE_ASSIGN(const std::string hash, DataHash(data));
    merged_["data_hash"] = hash;
    if (point_.run.empty()) return Ok();
    const bool renamed = data != known_data_;
    const bool known = !known_hash_.empty() || known_data_ == "synthetic";
    const bool same = known ? hash == known_hash_ : !renamed;
    if (!same && !asked_.may_override) {
      return renamed ? NeedsOverride("--data",
                                     fmt::format("{} is not the data of {}, {}", data,
                                                 asked_.resume, known_data_),
                                     "leave it out to go on with the run's")
                     : NeedsOverride(data, fmt::format("has changed since {}", asked_.resume),
                                     "put back what the run was trained on");
    }
    if (renamed) resumed_.changes.push_back(Change("data", known_data_, data));
    if (!same && !renamed) resumed_.changes.push_back(fmt::format("data {}, changed since", data));
    return Ok();
  }

  Status ChoosePlan() {
    const std::string kept = point_.run.empty() ? "" : point_.run + "/plan.json";
    if (!Has(given_, "plan")) {
      resumed_.plan = kept;
      if (!kept.empty()) return Ok();
      return Usage(
          "no plan given",
          fmt::format("{} belongs to no run: heddle run plan.json --resume …", point_.checkpoint));
    }
    resumed_.plan = asked_.plan;
    const std::string before = merged_.value("plan", std::string());
    merged_["plan"] = asked_.plan;
    if (kept.empty()) return Ok();
    HEDDLE_ASSIGN(const std::string now, ReadFile(asked_.plan));
    const Result<std::string> then = ReadFile(kept);
    if (then.ok() && then.value() == now) return Ok();
    resumed_.changes.push_back(before == asked_.plan ? fmt::format("plan {}, changed since", before)
                                                     : Change("plan", before, asked_.plan));
    return Ok();
  }

  const RunConfig& asked_;
  Json asked_json_;
  const std::vector<std::string>& given_;
  ResumePoint point_;
  std::string where_;
  Json merged_;
  std::string known_data_, known_hash_;
  ResumedRun resumed_;
};

}  // namespace

Result<ResumedRun> ResumeRun(const RunConfig& asked, const std::vector<std::string>& given) {
  HEDDLE_CHECK(!asked.resume.empty());
  HEDDLE_ASSIGN(ResumePoint point, FindResumePoint(asked.resume));
  return Merge(asked, given, std::move(point)).Run();
}

RunConfig MeetingConfig(const RunConfig& asked, const std::vector<std::string>& given) {
  RunConfig config = asked;
  if (asked.resume.empty()) return config;
  const Result<ResumePoint> point = FindResumePoint(asked.resume);
  if (!point.ok() || point.value().run.empty()) return config;
  const Result<RunDirectory> directory = RunDirectory::Open(point.value().run);
  if (!directory.ok()) return config;
  Result<Json> stored = directory.value().ReadConfig();
  if (!stored.ok()) return config;
  Json json = std::move(stored).value();
  json.erase("schema");
  const Result<RunConfig> before = RunConfigFromJson(JsonField(json, "run configuration"));
  if (!before.ok()) return config;
  if (!Has(given, "port")) config.port = before.value().port;
  if (!Has(given, "meet_within")) config.meet_within = before.value().meet_within;
  config.threads = config.threads || before.value().threads;
  config.emulate = config.emulate || before.value().emulate;
  return config;
}

}  // namespace heddle
