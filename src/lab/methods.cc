#include "lab/methods.h"

#include "base/text.h"
#include "lab/batched.h"
#include "lab/local_sgd.h"
#include "lab/pipedream.h"
#include "lab/randomized.h"

namespace heddle {
namespace {

Method PipeDreamMethod(std::string name, std::string about, PipeDreamRule rule) {
  return {std::move(name), std::move(about),
          [rule](const Trial& trial) { return RunPipeDream(trial, rule); }, nullptr};
}

Method RandomizedMethod(std::string name, std::string about, DelayMode mode) {
  return {std::move(name), std::move(about),
          [mode](const Trial& trial) { return RunRandomized(trial, mode); }, nullptr,
          mode == DelayMode::kReplay ? std::nullopt : std::optional<DelayMode>(mode)};
}

Method LocalMethod(std::string name, std::string about, LocalKind kind) {
  return {std::move(name), std::move(about),
          [kind](const Trial& trial) { return RunLocal(trial, kind); },
          [kind](const Trial& trial) { return LocalRounds(trial, kind); }};
}

}  // namespace

const std::vector<Method>& Methods() {
  static const std::vector<Method> methods = {
      PipeDreamMethod("pd", "PipeDream: asynchronous 1F1B, weights stashed", {}),
      RandomizedMethod("rpd", "Randomized PipeDream, delays uniform up to PipeDream's largest",
                       DelayMode::kUniform),
      RandomizedMethod("rpd-maximal", "… with the largest delay everywhere", DelayMode::kMaximal),
      RandomizedMethod("rpd-zero", "… without delay: random block descent", DelayMode::kZero),
      RandomizedMethod("rpd-replay", "… with PipeDream's own blocks and delays: equals pd",
                       DelayMode::kReplay),
      LocalMethod("local", "LocalSGD: a replica for each stage, multiplexed over the pipeline",
                  LocalKind::kMultiplexed),
      LocalMethod("local-plain", "LocalSGD: a whole model on each device", LocalKind::kPlain),
      {"gpipe", "synchronous: a batch, a flush, an update",
       [](const Trial& trial) { return RunGpipe(trial, trial.batch()); }, nullptr},
      {"gpipe-4", "… with four times as many microbatches in a batch",
       [](const Trial& trial) { return RunGpipe(trial, 4 * trial.batch()); }, nullptr},
      {"gpipe-1", "… with one: plain SGD, the pipeline empty but for it",
       [](const Trial& trial) { return RunGpipe(trial, 1); }, nullptr},
      {"2bw", "PipeDream-2BW: no flush, two versions, one batch old", &RunTwoVersions, nullptr},
      PipeDreamMethod("pd-nostash", "PipeDream whose backward sees the weights of its own time",
                      {.versions = Versions::kNone}),
      PipeDreamMethod("pd-vertical", "PipeDream with vertical sync: S-1 updates old everywhere",
                      {.versions = Versions::kVertical}),
      PipeDreamMethod("pd-stage-steps", "PipeDream with step sizes 1/(S-s) by stage",
                      {.step_by_stage = true}),
      PipeDreamMethod("pd-momentum", "PipeDream with momentum", {.momentum = true}),
      PipeDreamMethod("pd-lookahead", "PipeDream with momentum that predicts the weights it meets",
                      {.momentum = true, .look_ahead = true}),
      {"sgd", "SGD at PipeDream's pace without its delays, which no pipeline can do",
       &RunWithoutDelay, nullptr},
      LocalMethod("diloco", "LocalSGD with an outer Nesterov momentum", LocalKind::kOuter),
  };
  return methods;
}

Result<const Method*> FindMethod(const std::string& name) {
  std::vector<std::string> names;
  for (const Method& method : Methods()) {
    if (method.name == name) return &method;
    names.push_back(method.name);
  }
  return BadInput("--methods", "\"" + name + "\" is unknown", SuggestName(name, names));
}

}  // namespace heddle
