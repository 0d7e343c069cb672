// heddle-worker run: what is asked, checked against the run that is resumed, and given to ranks.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/json_field.h"
#include "run/data/data_source.h"
#include "run/launched_rank.h"
#include "run/rank_attendance.h"
#include "run/resumed_run.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
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

Result<Names> ReadGiven(const JsonField& json) {
  Names names;
  if (!json.Has("given")) return names;
  HEDDLE_ASSIGN(const JsonField given, json.Array("given"));
  for (size_t k = 0; k < given.size(); ++k) {
    HEDDLE_ASSIGN(names.emplace_back(), given.Element(k).AsString());
  }
  return names;
}

// Reads the run that is resumed, and the data.
Result<Request> MakeRequest(const RunConfig& asked, const Names& given) {
  Request request;
  request.given = given;
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
Result<int> RunPacedRank(Training training, const LoadedPlan& loaded, RankAttendance& attendance,
                         RunFront& front) {
  HEDDLE_ASSIGN(const DType dtype, TrainedType(loaded.plan, training.config));
  HEDDLE_ASSIGN(const std::unique_ptr<Emulation> emulation,
                EmulateDevices(loaded, training.program, dtype));
  training.emulation = emulation.get();
  return RunLaunched(training, loaded, attendance, front);
}

// What a launcher has started comes to the meeting at once, whatever it reads first. Null: none
// has.
Result<std::shared_ptr<RankAttendance>> Attend(const RunConfig& asked, const Names& given) {
  const RunConfig config = MeetingConfig(asked, given);
  if (config.threads) return std::shared_ptr<RankAttendance>();
  HEDDLE_ASSIGN(const std::optional<LaunchedRank> launched,
                FindLaunchedRank([](const char* name) { return std::getenv(name); }, config.port));
  // Inside a launcher's shell an emulation is by itself.
  if (!launched || (config.emulate && launched->ranks == 1)) {
    return std::shared_ptr<RankAttendance>();
  }
  return AttendMeeting(config, *launched);
}

// `attendance` is null where heddle itself starts the devices.
Result<int> RunAsked(const RunConfig& asked, const Names& given, bool as_json,
                     RankAttendance* attendance) {
  HEDDLE_ASSIGN(const Request request, MakeRequest(asked, given));
  const RunConfig& config = request.config;
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(request.plan, config.profile));
  InstallTensorMemory();
  const Plan& plan = both.loaded.plan;
  HEDDLE_RETURN_IF_ERROR(CheckProfile(request, plan));
  if (attendance == nullptr) HEDDLE_RETURN_IF_ERROR(CheckMeeting(request));
  if (attendance == nullptr || attendance->launched().rank == 0) {
    for (const std::string& change : request.changes) Say("{}\n", change);
  }
  RunFront front(plan, as_json);
  if (config.emulate && IsProfileSpec(plan.request.model)) {
    if (attendance != nullptr) {
      return Error{ErrorKind::kUsage, attendance->launched().launcher,
                   fmt::format("{} is a profile: it has no messages to send", plan.request.model),
                   "emulate it in one process"};
    }
    CatchInterrupts();
    return front.Conclude(RunProfiled(both.loaded, config, request.given, front.listener()));
  }
  HEDDLE_ASSIGN(Training training,
                PrepareTraining(plan, both.loaded.planning->graph, config, MakeTorchExecutor));
  if (attendance != nullptr && config.emulate) {
    return RunPacedRank(std::move(training), both.loaded, *attendance, front);
  }
  if (config.threads || config.emulate) {
    return RunOnThreadsHere(std::move(training), both.loaded, front);
  }
  if (attendance != nullptr) return RunLaunched(training, both.loaded, *attendance, front);
  if (config.elastic) return RunElastic(both, config, as_json);
  return RunInProcesses(training, both.loaded, front);
}

// The same, with what goes wrong without an error of ours as one.
Result<int> RunOrSayWhyNot(const RunConfig& asked, const Names& given, bool as_json,
                           RankAttendance* attendance) {
  try {
    return RunAsked(asked, given, as_json, attendance);
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, "heddle-worker", error.what(), ""};
  }
}

}  // namespace

Result<int> RunCommand(const Words& words, Farewell& farewell) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "run configuration"));
  const JsonField field(json, "run configuration");
  HEDDLE_ASSIGN(const RunConfig asked, RunConfigFromJson(field));
  HEDDLE_ASSIGN(const Names given, ReadGiven(field));
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  HEDDLE_ASSIGN(const std::shared_ptr<RankAttendance> attendance, Attend(asked, given));
  const Result<int> code = RunOrSayWhyNot(asked, given, as_json, attendance.get());
  if (attendance != nullptr && !code.ok()) {
    farewell = [attendance, error = code.error()] { attendance->Leave(error); };
  }
  return code;
}

}  // namespace heddle
