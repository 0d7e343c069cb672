// heddle-worker run: what is asked, checked against the run that is resumed, and given to ranks.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/json_field.h"
#include "run/data/data_source.h"
#include "run/launched_rank.h"
#include "run/resumed_run.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/train.h"
#include "worker/commands.h"
#include "worker/emulated_network.h"
#include "worker/interrupt.h"
#include "worker/output.h"
#include "worker/run_front.h"
#include "worker/run_ranks.h"
#include "worker/run_timed.h"

namespace heddle {
namespace {

using Names = std::vector<std::string>;

// What is run, and from which plan.
struct Request {
  RunConfig config;
  std::string plan;
  Names given;    // options, by their names in JSON
  Names changes;  // against the run that is resumed
};

Result<Request> ReadRequest(const JsonField& json) {
  Request request;
  HEDDLE_ASSIGN(const RunConfig asked, RunConfigFromJson(json));
  if (json.Has("given")) {
    HEDDLE_ASSIGN(const JsonField given, json.Array("given"));
    for (size_t k = 0; k < given.size(); ++k) {
      HEDDLE_ASSIGN(request.given.emplace_back(), given.Element(k).AsString());
    }
  }
  if (!asked.resume.empty()) {
    HEDDLE_ASSIGN(ResumedRun resumed, ResumeRun(asked, request.given));
    request.config = std::move(resumed.config);
    request.plan = std::move(resumed.plan);
    request.changes = std::move(resumed.changes);
  } else {
    request.config = asked;
    request.plan = asked.plan;
    HEDDLE_ASSIGN(request.config.data_hash, DataHash(asked.data));
  }
  HEDDLE_RETURN_IF_ERROR(CheckGivenOptions(request.config, request.given));
  return request;
}

// A profile that the plan knows nothing of would change nothing but the pace.
Status CheckProfile(const Request& request, const Plan& plan) {
  if (request.config.profile.empty() || request.config.emulate || !plan.profile_hash.empty()) {
    return Ok();
  }
  return Error{ErrorKind::kUsage, "--profile",
               fmt::format("{} was made without a profile", request.plan), "leave it out"};
}

// Without a launcher processes meet by what they inherit: there is no port to choose.
Status CheckMeeting(const Request& request) {
  for (const char* key : {"port", "secret_file", "interface"}) {
    if (std::find(request.given.begin(), request.given.end(), key) == request.given.end()) continue;
    return Error{ErrorKind::kUsage, OptionOf(key),
                 "no launcher has started this process: those it starts need no port to meet",
                 "leave it out, or start one process per device by mpirun, srun or torchrun"};
  }
  return Ok();
}

Result<int> RunOnThreadsHere(Training training, const LoadedPlan& loaded, RunFront& front) {
  std::unique_ptr<Emulation> emulation;
  if (training.config.emulate) {
    HEDDLE_ASSIGN(const DType dtype, TrainedType(loaded.plan, training.config));
    HEDDLE_ASSIGN(emulation, EmulatePlan(loaded, training.program, dtype));
    training.emulation = emulation.get();
  }
  CatchInterrupts();
  return front.Conclude(TrainOnThreads(training, front.listener()));
}

// One device whose computes are paced; the launcher's processes and links are the cluster.
Result<int> RunPacedRank(Training training, const LoadedPlan& loaded, const LaunchedRank& launched,
                         RunFront& front) {
  HEDDLE_ASSIGN(const DType dtype, TrainedType(loaded.plan, training.config));
  HEDDLE_ASSIGN(const std::unique_ptr<Emulation> emulation,
                EmulateDevices(loaded, training.program, dtype));
  training.emulation = emulation.get();
  return RunLaunched(training, loaded, launched, front);
}

}  // namespace

Result<int> RunCommand(const Words& words) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "run configuration"));
  HEDDLE_ASSIGN(const Request request, ReadRequest(JsonField(json, "run configuration")));
  const RunConfig& config = request.config;
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(request.plan, config.profile));
  InstallTensorMemory();
  const Plan& plan = both.loaded.plan;
  HEDDLE_RETURN_IF_ERROR(CheckProfile(request, plan));
  std::optional<LaunchedRank> launched;
  if (!config.threads) {
    HEDDLE_ASSIGN(launched, FindLaunchedRank([](const char* name) { return std::getenv(name); },
                                             config.port));
  }
  if (!launched) HEDDLE_RETURN_IF_ERROR(CheckMeeting(request));
  // Inside a launcher's shell an emulation is by itself.
  if (config.emulate && launched && launched->ranks == 1) launched.reset();
  if (!launched || launched->rank == 0) {
    for (const std::string& change : request.changes) Say("{}\n", change);
  }
  RunFront front(plan, as_json);
  if (config.emulate && IsProfileSpec(plan.request.model)) {
    if (launched) {
      return Error{ErrorKind::kUsage, launched->launcher,
                   fmt::format("{} is a profile: it has no messages to send", plan.request.model),
                   "emulate it in one process"};
    }
    CatchInterrupts();
    return front.Conclude(RunProfiled(both.loaded, config, request.given, front.listener()));
  }
  HEDDLE_ASSIGN(Training training, PrepareTraining(plan, both.loaded.planning->graph, config));
  if (launched && config.emulate)
    return RunPacedRank(std::move(training), both.loaded, *launched, front);
  if (config.threads || config.emulate) {
    return RunOnThreadsHere(std::move(training), both.loaded, front);
  }
  if (launched) return RunLaunched(training, both.loaded, *launched, front);
  if (config.elastic) return RunElastic(both, config, as_json);
  return RunInProcesses(training, both.loaded, front);
}

}  // namespace heddle
