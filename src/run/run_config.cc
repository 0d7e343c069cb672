#include "run/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_field.h"

namespace heddle {
namespace {

// A field that is not there keeps its default: an older version may have written the file.
class Reader {
 public:
  explicit Reader(const JsonField& json) : json_(json) {}

  Status Read(const char* key, std::string& value) const {
    return Take(key, value, [&] { return json_.String(key); });
  }
  Status Read(const char* key, double& value) const {
    return Take(key, value, [&] { return json_.Number(key); });
  }
  Status Read(const char* key, bool& value) const {
    return Take(key, value, [&] { return json_.Bool(key); });
  }
  Status Read(const char* key, int64_t& value, int64_t least, int64_t most = INT64_MAX) const {
    return Take(key, value, [&] { return json_.Int(key, least, most); });
  }

 private:
  template <class T, class Parse>
  Status Take(const char* key, T& value, const Parse& parse) const {
    if (!json_.Has(key)) return Ok();
    HEDDLE_ASSIGN(value, parse());
    return Ok();
  }

  const JsonField& json_;
};

// An option that would be ignored unless something else holds.
struct Need {
  const char* key;
  bool (*works)(const RunConfig& config);
  const char* what;
  const char* hint;
};

bool HasProcesses(const RunConfig& config) { return !config.threads && !config.emulate; }

constexpr const char* kNoProcesses = "devices are threads of one process, which has no use for it";
constexpr const char* kLeaveOutThreads = "leave it out, or --threads and --emulate";

constexpr Need kNeeds[] = {
    {"dilate", [](const RunConfig& c) { return c.emulate; }, "time goes slower only with --emulate",
     "give --emulate too, or leave it out"},
    {"eval_every", [](const RunConfig& c) { return c.eval_every == 0 || c.validation > 0; },
     "with --validation 0 nothing is held out to look at",
     "give a fraction, as in --validation 0.1"},
    {"keep", [](const RunConfig& c) { return c.save_every > 0 || c.elastic || !c.resume.empty(); },
     "without --save-every there is one checkpoint, at the end", "give --save-every too"},
    {"port", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"meet_within", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"stuck_after", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"silent_after", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"secret_file", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"interface", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"elastic", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"native_collectives", &HasProcesses, kNoProcesses, kLeaveOutThreads},
    {"override", [](const RunConfig& c) { return !c.resume.empty(); },
     "there is no run whose options could be overridden", "it goes with --resume"},
};

bool IsFinite(double value) { return std::isfinite(value); }

}  // namespace

std::string OptionOf(std::string_view key) {
  if (key == "directory") return "--dir";
  std::string option = fmt::format("--{}", key);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

Json RunConfigToJson(const RunConfig& config) {
  Json json = {{"plan", config.plan},
               {"profile", config.profile},
               {"data", config.data},
               {"data_hash", config.data_hash},
               {"validation", config.validation},
               {"steps", config.steps},
               {"rate", config.learning_rate},
               {"schedule", config.schedule},
               {"eval_every", config.eval_every},
               {"save_every", config.save_every},
               {"check_every", config.check_every},
               {"keep", config.keep},
               {"directory", config.directory},
               {"resume", config.resume},
               {"override", config.may_override},
               {"weights", config.weights},
               {"keep_going", config.keep_going},
               {"measure_noise", config.measure_noise},
               {"elastic", config.elastic},
               {"emulate", config.emulate},
               {"dilate", config.dilate},
               {"threads", config.threads},
               {"port", config.port},
               {"meet_within", config.meet_within},
               {"stuck_after", config.stuck_after},
               {"silent_after", config.silent_after},
               {"secret_file", config.secret_file},
               {"interface", config.interface},
               {"native_collectives", config.native_collectives}};
  if (config.seed) json["seed"] = *config.seed;
  if (config.dtype) json["dtype"] = NameOf(*config.dtype);
  return json;
}

Result<RunConfig> RunConfigFromJson(const JsonField& json) {
  RunConfig config;
  const Reader reader(json);
  HEDDLE_ASSIGN(config.plan, json.String("plan"));
  HEDDLE_RETURN_IF_ERROR(reader.Read("profile", config.profile));
  HEDDLE_RETURN_IF_ERROR(reader.Read("data", config.data));
  HEDDLE_RETURN_IF_ERROR(reader.Read("data_hash", config.data_hash));
  HEDDLE_RETURN_IF_ERROR(reader.Read("validation", config.validation));
  HEDDLE_RETURN_IF_ERROR(reader.Read("steps", config.steps, 0));
  HEDDLE_RETURN_IF_ERROR(reader.Read("rate", config.learning_rate));
  HEDDLE_RETURN_IF_ERROR(reader.Read("schedule", config.schedule));
  HEDDLE_RETURN_IF_ERROR(reader.Read("eval_every", config.eval_every, 0));
  HEDDLE_RETURN_IF_ERROR(reader.Read("save_every", config.save_every, 0));
  HEDDLE_RETURN_IF_ERROR(reader.Read("check_every", config.check_every, 0));
  HEDDLE_RETURN_IF_ERROR(reader.Read("keep", config.keep, 1, INT32_MAX));
  HEDDLE_RETURN_IF_ERROR(reader.Read("directory", config.directory));
  HEDDLE_RETURN_IF_ERROR(reader.Read("resume", config.resume));
  HEDDLE_RETURN_IF_ERROR(reader.Read("override", config.may_override));
  HEDDLE_RETURN_IF_ERROR(reader.Read("weights", config.weights));
  HEDDLE_RETURN_IF_ERROR(reader.Read("keep_going", config.keep_going));
  HEDDLE_RETURN_IF_ERROR(reader.Read("measure_noise", config.measure_noise));
  HEDDLE_RETURN_IF_ERROR(reader.Read("elastic", config.elastic));
  HEDDLE_RETURN_IF_ERROR(reader.Read("emulate", config.emulate));
  HEDDLE_RETURN_IF_ERROR(reader.Read("dilate", config.dilate));
  HEDDLE_RETURN_IF_ERROR(reader.Read("threads", config.threads));
  HEDDLE_RETURN_IF_ERROR(reader.Read("port", config.port, 0, 65535));
  HEDDLE_RETURN_IF_ERROR(reader.Read("meet_within", config.meet_within));
  HEDDLE_RETURN_IF_ERROR(reader.Read("stuck_after", config.stuck_after));
  HEDDLE_RETURN_IF_ERROR(reader.Read("silent_after", config.silent_after));
  HEDDLE_RETURN_IF_ERROR(reader.Read("secret_file", config.secret_file));
  HEDDLE_RETURN_IF_ERROR(reader.Read("interface", config.interface));
  HEDDLE_RETURN_IF_ERROR(reader.Read("native_collectives", config.native_collectives));
  if (json.Has("seed")) {
    HEDDLE_ASSIGN(const int64_t seed, json.Int("seed", 0, INT64_MAX));
    config.seed = static_cast<uint64_t>(seed);
  }
  if (json.Has("dtype")) {
    HEDDLE_ASSIGN(const std::string name, json.String("dtype"));
    config.dtype = ParseDType(name);
    if (!config.dtype) return json.Bad(fmt::format("dtype \"{}\" is unknown", name));
  }
  HEDDLE_RETURN_IF_ERROR(CheckRunConfig(config));
  return config;
}

Status CheckRunConfig(const RunConfig& config) {
  if (!(config.validation >= 0 && config.validation < 1)) {
    return BadInput("--validation", fmt::format("{} is out of range", config.validation),
                    "a fraction of the data: 0 to below 1");
  }
  constexpr double kMostRate = 1e30;  // with it, too, fp32 can compute
  if (!(config.learning_rate > 0 && config.learning_rate <= kMostRate)) {
    return BadInput("--rate", fmt::format("{} is no learning rate", config.learning_rate),
                    "a positive number, up to 1e30");
  }
  constexpr double kMostSeconds = 1e6;
  if (!(config.meet_within > 0 && config.meet_within <= kMostSeconds)) {
    return BadInput("--meet-within", fmt::format("{} is out of range", config.meet_within),
                    "seconds, above 0");
  }
  if (!(config.silent_after >= 1 && config.silent_after <= kMostSeconds)) {
    return BadInput("--silent-after", fmt::format("{} is out of range", config.silent_after),
                    "seconds, 1 or more");
  }
  if (!(config.dilate >= 0) || !IsFinite(config.dilate)) {
    return BadInput("--dilate", fmt::format("{} is no factor", config.dilate),
                    "a positive number, or 0 to let it be chosen");
  }
  const bool sensible = config.stuck_after == 0 || config.stuck_after >= 1;
  if (!sensible || !IsFinite(config.stuck_after)) {
    return BadInput("--stuck-after", fmt::format("{} is no factor", config.stuck_after),
                    "1 or more, or 0 for never");
  }
  if (config.dtype && *config.dtype != DType::kF32 && *config.dtype != DType::kF64) {
    return BadInput("--dtype", "only fp32 and fp64 can be run here",
                    "a plan for bf16 or fp16 trains with --dtype fp32");
  }
  return ParseLearningRate(config.schedule).ok()
             ? Ok()
             : Status(ParseLearningRate(config.schedule).error());
}

Status CheckGivenOptions(const RunConfig& config, const std::vector<std::string>& given) {
  for (const Need& need : kNeeds) {
    const bool is_given = std::find(given.begin(), given.end(), need.key) != given.end();
    if (!is_given || need.works(config)) continue;
    return Error{ErrorKind::kUsage, OptionOf(need.key), need.what, need.hint};
  }
  return Ok();
}

}  // namespace heddle
