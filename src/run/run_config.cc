#include "run/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_struct.h"

namespace heddle {

// A field that is not there keeps its default: an older version may have written the file. One that
// nobody knows is a newer version's.
template <>
struct JsonFields<RunConfig> {
  static constexpr bool kLenient = true;
  static constexpr auto kTable = std::tuple(
      JsonMember("plan", &RunConfig::plan), JsonMember("profile", &RunConfig::profile).Optional(),
      JsonMember("data", &RunConfig::data).Optional(),
      JsonMember("data_hash", &RunConfig::data_hash).Optional(),
      JsonMember("validation", &RunConfig::validation).Optional(),
      JsonMember("steps", &RunConfig::steps).AtLeast(0).Optional(),
      JsonMember("rate", &RunConfig::learning_rate).Optional(),
      JsonMember("schedule", &RunConfig::schedule).Optional(),
      JsonMember("eval_every", &RunConfig::eval_every).AtLeast(0).Optional(),
      JsonMember("save_every", &RunConfig::save_every).AtLeast(0).Optional(),
      JsonMember("check_every", &RunConfig::check_every).AtLeast(0).Optional(),
      JsonMember("keep", &RunConfig::keep).Within(1, INT32_MAX).Optional(),
      JsonMember("directory", &RunConfig::directory).Optional(),
      JsonMember("resume", &RunConfig::resume).Optional(),
      JsonMember("override", &RunConfig::may_override).Optional(),
      JsonMember("weights", &RunConfig::weights).Optional(),
      JsonMember("keep_going", &RunConfig::keep_going).Optional(),
      JsonMember("measure_noise", &RunConfig::measure_noise).Optional(),
      JsonMember("elastic", &RunConfig::elastic).Optional(),
      JsonMember("emulate", &RunConfig::emulate).Optional(),
      JsonMember("dilate", &RunConfig::dilate).Optional(),
      JsonMember("threads", &RunConfig::threads).Optional(),
      JsonMember("port", &RunConfig::port).Within(0, 65535).Optional(),
      JsonMember("meet_within", &RunConfig::meet_within).Optional(),
      JsonMember("stuck_after", &RunConfig::stuck_after).Optional(),
      JsonMember("silent_after", &RunConfig::silent_after).Optional(),
      JsonMember("secret_file", &RunConfig::secret_file).Optional(),
      JsonMember("interface", &RunConfig::interface).Optional(),
      JsonMember("native_collectives", &RunConfig::native_collectives).Optional(),
      JsonMember("seed", &RunConfig::seed).Optional(),
      JsonMember("dtype", &RunConfig::dtype).Optional());
};

namespace {

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

Json RunConfigToJson(const RunConfig& config) { return WriteStruct(config); }

Result<RunConfig> RunConfigFromJson(const JsonField& json) {
  HEDDLE_ASSIGN(const RunConfig config, ReadStruct<RunConfig>(json));
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
