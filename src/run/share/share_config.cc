#include "run/share/share_config.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace heddle {
namespace {

Json TimesToJson(const JobTimes& times) {
  return {{"compute_seconds", times.compute.value},
          {"communicate_seconds", times.communicate.value},
          {"exposed_seconds", times.exposed.value}};
}

Result<JobTimes> TimesFromJson(const JsonField& json) {
  JobTimes times;
  for (const auto& [key, part] : {std::pair{"compute_seconds", &times.compute},
                                  {"communicate_seconds", &times.communicate},
                                  {"exposed_seconds", &times.exposed}}) {
    HEDDLE_ASSIGN(part->value, json.Number(key));
    if (part->value < 0) return json.Bad(fmt::format("{} is negative", key));
  }
  return times;
}

}  // namespace

Json ShareJobToJson(const ShareJobConfig& job) {
  Json json = {{"name", job.name},          {"plan", job.plan},    {"profile", job.profile},
               {"data", job.data},          {"steps", job.steps},  {"seed", job.seed},
               {"rate", job.learning_rate}, {"weight", job.weight}};
  if (job.dtype) json["dtype"] = NameOf(*job.dtype);
  if (job.times) json["times"] = TimesToJson(*job.times);
  json["predicted_seconds"] = job.predicted.value;
  return json;
}

Result<ShareJobConfig> ShareJobFromJson(const JsonField& json) {
  ShareJobConfig job;
  HEDDLE_ASSIGN(job.name, json.String("name"));
  if (!IsPlainName(job.name)) {  // it is part of paths
    return json.Bad(fmt::format("\"{}\" is no name for a job", job.name), kPlainName);
  }
  HEDDLE_ASSIGN(job.plan, json.String("plan"));
  HEDDLE_ASSIGN(job.profile, json.String("profile"));
  HEDDLE_ASSIGN(job.data, json.String("data"));
  HEDDLE_ASSIGN(job.steps, json.Int("steps", 1, INT32_MAX));
  HEDDLE_ASSIGN(job.seed, json.Int("seed", 0, INT64_MAX));
  HEDDLE_ASSIGN(job.learning_rate, json.Number("rate"));
  HEDDLE_ASSIGN(job.weight, json.Number("weight"));
  if (!(job.weight > 0)) return json.Bad(fmt::format("weight {} is not positive", job.weight));
  if (json.Has("dtype")) {
    HEDDLE_ASSIGN(const std::string name, json.String("dtype"));
    job.dtype = ParseDType(name);
    if (!job.dtype) return json.Bad(fmt::format("dtype \"{}\" is unknown", name));
  }
  if (json.Has("times")) {
    HEDDLE_ASSIGN(const JsonField times, json.Object("times"));
    HEDDLE_ASSIGN(job.times, TimesFromJson(times));
  }
  HEDDLE_ASSIGN(job.predicted.value, json.Number("predicted_seconds"));
  return job;
}

Json ShareConfigToJson(const ShareConfig& config) {
  Json jobs = Json::array();
  for (const ShareJobConfig& job : config.jobs) jobs.push_back(ShareJobToJson(job));
  return {{"directory", config.directory},
          {"order", NameOf(config.order)},
          {"switch_seconds", config.switch_cost.value},
          {"manner", NameOf(config.manner)},
          {"serial", config.serial},
          {"emulate", config.emulate},
          {"dilate", config.dilate},
          {"lease", config.lease},
          {"silence", config.silence},
          {"claim", config.claim},
          {"pin", config.pin},
          {"shaped", config.shaped},
          {"jobs", std::move(jobs)},
          {"groups", config.groups}};
}

Result<ShareConfig> ShareConfigFromJson(const JsonField& json) {
  ShareConfig config;
  HEDDLE_ASSIGN(config.directory, json.String("directory"));
  HEDDLE_ASSIGN(const std::string order, json.String("order"));
  HEDDLE_ASSIGN(const std::string manner, json.String("manner"));
  const std::optional<TurnOrder> known_order = ParseTurnOrder(order);
  if (!known_order) return json.Bad(fmt::format("order \"{}\" is unknown", order));
  const std::optional<ShareManner> known_manner = ParseShareManner(manner);
  if (!known_manner) return json.Bad(fmt::format("manner \"{}\" is unknown", manner));
  config.order = *known_order;
  config.manner = *known_manner;
  HEDDLE_ASSIGN(config.switch_cost.value, json.Number("switch_seconds"));
  HEDDLE_ASSIGN(config.serial, json.Bool("serial"));
  HEDDLE_ASSIGN(config.emulate, json.Bool("emulate"));
  HEDDLE_ASSIGN(config.dilate, json.Number("dilate"));
  HEDDLE_ASSIGN(config.lease, json.Number("lease"));
  HEDDLE_ASSIGN(config.silence, json.Number("silence"));
  if (!(config.silence > 0 && config.silence <= 1e6)) return json.Bad("silence is out of range");
  HEDDLE_ASSIGN(const int64_t claim, json.Int("claim", -1, INT32_MAX));
  config.claim = static_cast<int32_t>(claim);
  HEDDLE_ASSIGN(config.pin, json.Bool("pin"));
  HEDDLE_ASSIGN(config.shaped, json.Number("shaped"));
  HEDDLE_ASSIGN(const JsonField jobs, json.Array("jobs"));
  for (size_t k = 0; k < jobs.size(); ++k) {
    HEDDLE_ASSIGN(ShareJobConfig job, ShareJobFromJson(jobs.Element(k)));
    config.jobs.push_back(std::move(job));
  }
  HEDDLE_ASSIGN(const JsonField groups, json.Array("groups"));
  for (size_t g = 0; g < groups.size(); ++g) {
    config.groups.emplace_back();
    const JsonField group = groups.Element(g);
    for (size_t k = 0; k < group.size(); ++k) {
      HEDDLE_ASSIGN(const int64_t number,
                    group.Element(k).AsInt(0, static_cast<int64_t>(config.jobs.size()) - 1));
      config.groups.back().push_back(static_cast<int32_t>(number));
    }
  }
  return config;
}

}  // namespace heddle
