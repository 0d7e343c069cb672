#include "run/share/share_config.h"

#include <fmt/format.h>

#include "base/json_struct.h"
#include "base/text.h"

namespace heddle {

template <>
struct JsonFields<JobTimes> {
  static constexpr auto kTable =
      std::tuple(JsonMember("compute_seconds", &JobTimes::compute).AtLeast(0),
                 JsonMember("communicate_seconds", &JobTimes::communicate).AtLeast(0),
                 JsonMember("exposed_seconds", &JobTimes::exposed).AtLeast(0));
};

template <>
struct JsonFields<ShareJobConfig> {
  static constexpr auto kTable = std::tuple(
      JsonMember("name", &ShareJobConfig::name), JsonMember("plan", &ShareJobConfig::plan),
      JsonMember("profile", &ShareJobConfig::profile), JsonMember("data", &ShareJobConfig::data),
      JsonMember("steps", &ShareJobConfig::steps).Within(1, INT32_MAX),
      JsonMember("seed", &ShareJobConfig::seed).AtLeast(0),
      JsonMember("rate", &ShareJobConfig::learning_rate),
      JsonMember("weight", &ShareJobConfig::weight).Above(0),
      JsonMember("dtype", &ShareJobConfig::dtype), JsonMember("times", &ShareJobConfig::times),
      JsonMember("predicted_seconds", &ShareJobConfig::predicted));
};

template <>
struct JsonFields<ShareConfig> {
  static constexpr auto kTable = std::tuple(
      JsonMember("directory", &ShareConfig::directory), JsonMember("order", &ShareConfig::order),
      JsonMember("switch_seconds", &ShareConfig::switch_cost),
      JsonMember("manner", &ShareConfig::manner), JsonMember("serial", &ShareConfig::serial),
      JsonMember("emulate", &ShareConfig::emulate), JsonMember("dilate", &ShareConfig::dilate),
      JsonMember("lease", &ShareConfig::lease),
      JsonMember("silence", &ShareConfig::silence).Within(1e-3, 1e6),
      JsonMember("claim", &ShareConfig::claim).AtLeast(-1), JsonMember("pin", &ShareConfig::pin),
      JsonMember("shaped", &ShareConfig::shaped), JsonMember("jobs", &ShareConfig::jobs),
      JsonMember("groups", &ShareConfig::groups).AtLeast(0));
};

namespace {

Status CheckName(const JsonField& json, const ShareJobConfig& job) {
  if (IsPlainName(job.name)) return Ok();  // it is part of paths
  return json.Bad(fmt::format("\"{}\" is no name for a job", job.name), kPlainName);
}

}  // namespace

Json ShareJobToJson(const ShareJobConfig& job) { return WriteStruct(job); }

Result<ShareJobConfig> ShareJobFromJson(const JsonField& json) {
  HEDDLE_ASSIGN(ShareJobConfig job, ReadStruct<ShareJobConfig>(json));
  HEDDLE_RETURN_IF_ERROR(CheckName(json, job));
  return job;
}

Json ShareConfigToJson(const ShareConfig& config) { return WriteStruct(config); }

Result<ShareConfig> ShareConfigFromJson(const JsonField& json) {
  HEDDLE_ASSIGN(ShareConfig config, ReadStruct<ShareConfig>(json));
  for (const ShareJobConfig& job : config.jobs) HEDDLE_RETURN_IF_ERROR(CheckName(json, job));
  for (const std::vector<int32_t>& group : config.groups) {
    for (const int32_t number : group) {
      if (number < std::ssize(config.jobs)) continue;
      return json.Bad(fmt::format("groups: {} is no job", number),
                      fmt::format("there are {}", config.jobs.size()));
    }
  }
  return config;
}

}  // namespace heddle
