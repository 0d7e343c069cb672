#include "run/run_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_field.h"

namespace heddle {

Json RunConfigToJson(const RunConfig& config) {
  Json json = {{"plan", config.plan},
               {"profile", config.profile},
               {"data", config.data},
               {"validation", config.validation},
               {"steps", config.steps},
               {"rate", config.learning_rate},
               {"schedule", config.schedule},
               {"eval_every", config.eval_every},
               {"save_every", config.save_every},
               {"keep", config.keep},
               {"directory", config.directory},
               {"resume", config.resume},
               {"weights", config.weights},
               {"elastic", config.elastic},
               {"emulate", config.emulate},
               {"dilate", config.dilate},
               {"threads", config.threads},
               {"port", config.port},
               {"meet_within", config.meet_within},
               {"native_collectives", config.native_collectives}};
  if (config.seed) json["seed"] = *config.seed;
  if (config.dtype) json["dtype"] = NameOf(*config.dtype);
  return json;
}

Result<RunConfig> RunConfigFromJson(const JsonField& json) {
  RunConfig config;
  HEDDLE_ASSIGN(config.plan, json.String("plan"));
  HEDDLE_ASSIGN(config.profile, json.String("profile"));
  HEDDLE_ASSIGN(config.data, json.String("data"));
  HEDDLE_ASSIGN(config.validation, json.Number("validation"));
  HEDDLE_ASSIGN(config.steps, json.Int("steps", 0, INT64_MAX));
  HEDDLE_ASSIGN(config.learning_rate, json.Number("rate"));
  HEDDLE_ASSIGN(config.schedule, json.String("schedule"));
  HEDDLE_ASSIGN(config.eval_every, json.Int("eval_every", 0, INT64_MAX));
  HEDDLE_ASSIGN(config.save_every, json.Int("save_every", 0, INT64_MAX));
  HEDDLE_ASSIGN(config.keep, json.Int("keep", 1, INT32_MAX));
  HEDDLE_ASSIGN(config.directory, json.String("directory"));
  HEDDLE_ASSIGN(config.resume, json.String("resume"));
  HEDDLE_ASSIGN(config.weights, json.String("weights"));
  HEDDLE_ASSIGN(config.elastic, json.Bool("elastic"));
  HEDDLE_ASSIGN(config.emulate, json.Bool("emulate"));
  HEDDLE_ASSIGN(config.dilate, json.Number("dilate"));
  HEDDLE_ASSIGN(config.threads, json.Bool("threads"));
  HEDDLE_ASSIGN(config.port, json.Int("port", 0, 65535));
  HEDDLE_ASSIGN(config.meet_within, json.Number("meet_within"));
  HEDDLE_ASSIGN(config.native_collectives, json.Bool("native_collectives"));
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
  if (!(config.learning_rate > 0) || !std::isfinite(config.learning_rate)) {
    return BadInput("--rate", fmt::format("{} is no learning rate", config.learning_rate),
                    "a positive number");
  }
  constexpr double kMostSeconds = 1e6;
  if (!(config.meet_within > 0 && config.meet_within <= kMostSeconds)) {
    return BadInput("--meet-within", fmt::format("{} is out of range", config.meet_within),
                    "seconds, above 0");
  }
  if (!(config.dilate >= 0)) {
    return BadInput("--dilate", fmt::format("{} is no factor", config.dilate),
                    "a positive number, or 0 to let it be chosen");
  }
  if (config.dtype && *config.dtype != DType::kF32 && *config.dtype != DType::kF64) {
    return BadInput("--dtype", "only fp32 and fp64 can be run here",
                    "plans for bf16 and fp16 run in fp32");
  }
  return ParseLearningRate(config.schedule).ok()
             ? Ok()
             : Status(ParseLearningRate(config.schedule).error());
}

}  // namespace heddle
