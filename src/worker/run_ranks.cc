#include "worker/run_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <optional>

#include "base/hash.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "choose/planners.h"
#include "cluster/without_device.h"
#include "program/segment_cost.h"
#include "program/text/program_text.h"
#include "run/meet/store_server.h"
#include "run/peer_watch.h"
#include "run/processes.h"
#include "run/rank_attendance.h"
#include "run/run_files.h"
#include "run/run_identity.h"
#include "run/torch/c10d_communicator.h"
#include "run/torch/torch_executor.h"
#include "worker/interrupt.h"
#include "worker/output.h"

namespace heddle {
namespace {

// What devices are called, where they are, and what their work there should take.
class Places {
 public:
  static Result<Places> Make(const Program& program, const LoadedPlan& loaded) {
    const OpCost cost = loaded.planning->cost();
    HEDDLE_ASSIGN(SegmentSeconds seconds, CostSegments(program, *loaded.cluster, &cost));
    HEDDLE_ASSIGN(const std::vector<DeviceId> devices, FindDevices(program, *loaded.cluster));
    Places places(program, std::move(seconds));
    for (const DeviceId device : devices) {
      const double rate = loaded.cluster->type_of(device).rate(loaded.plan.request.dtype).value;
      places.slower_.push_back(std::max(1.0, rate / kSlowRate));
    }
    return places;
  }

  // "device 2 (b:0)".
  std::string Name(int32_t rank) const {
    return fmt::format("device {} ({})", rank, program_.devices[static_cast<size_t>(rank)].name);
  }

  // "in step 17, at "compute B2 #3"" for people.
  std::string Text(const std::optional<WorkerPlace>& place, int32_t rank) const {
    if (!place) return "before its first step";
    const Instruction* at = InstructionAt(place, rank);
    if (at == nullptr) return fmt::format("after step {}", place->step + 1);
    const DeviceProgram& device = program_.devices[static_cast<size_t>(rank)];
    return fmt::format("in step {}, at \"{}\"", place->step + 1,
                       PrintInstruction(program_, device, *at));
  }

  WorkAt Work(const std::optional<WorkerPlace>& place, int32_t rank) const {
    const Instruction* at = InstructionAt(place, rank);
    if (at == nullptr || !place->computing) return {};
    return {at->target, seconds_.Of(rank, at->target) * slower_[static_cast<size_t>(rank)]};
  }

 private:
  // FLOP/s that any processor has, also one that many processes share.
  static constexpr double kSlowRate = 1e9;

  Places(const Program& program, SegmentSeconds seconds)
      : program_(program), seconds_(std::move(seconds)) {}

  // Null between two parts of the run.
  const Instruction* InstructionAt(const std::optional<WorkerPlace>& place, int32_t rank) const {
    if (!place) return nullptr;
    const auto& list = program_.devices[static_cast<size_t>(rank)].list(place->section);
    return place->instruction < std::ssize(list) ? &list[static_cast<size_t>(place->instruction)]
                                                 : nullptr;
  }

  const Program& program_;
  SegmentSeconds seconds_;      // on the plan's cluster
  std::vector<double> slower_;  // by device: how much a slow processor is
};

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1e3 * seconds));
}

// One rank over c10d, in whatever process it is. `options` know the store and the interface.
Result<int> RunRank(
    const Training& training, int32_t rank, C10dOptions options, const std::string& where,
    RunFront& front, WorkerProgress* progress, const std::function<void()>& all_have_met = [] {}) {
  options.device = rank;
  options.devices = static_cast<int32_t>(training.program.devices.size());
  options.native_all_reduce = training.config.native_collectives;
  for (const Group& group : training.program.groups) options.groups.push_back(group.devices);
  HEDDLE_ASSIGN(const std::unique_ptr<Communicator> communicator, ConnectC10d(options));
  all_have_met();
  const Result<RunResult> trained =
      TrainRank(training, rank, *communicator, front.listener(), where, progress);
  if (rank == 0) return front.Conclude(trained);
  if (!trained.ok()) return trained.error();
  if (trained.value().failed) return static_cast<int>(ErrorKind::kRunFailed);  // the first says why
  return trained.value().interrupted ? CodeOf(trained.value().stopped_by) : 0;
}

// The processes' end as an exit code.
Result<int> CodeOfEnd(const Status& status, const ProcessesEnd& end) {
  if (end.said > 0) NotePrinted();
  if (!status.ok()) return status.error();
  if (end.at_once) return CodeOf(end.signal);
  return std::max(0, end.said - 1);
}

Result<int> RunWatched(const Training& training, const LoadedPlan& loaded, RunFront& front,
                       ProcessesEnd& end) {
  const Program& program = training.program;
  HEDDLE_ASSIGN(const Places places, Places::Make(program, loaded));
  HEDDLE_ASSIGN(const Seats seats, Seats::Make(static_cast<int>(program.devices.size())));
  std::unique_ptr<StoreServer> store;
  ProcessWatch watch;
  watch.after_fork = [&]() -> Status {
    HEDDLE_ASSIGN(store, StoreServer::Start(seats));
    seats.CloseRest();
    return Ok();
  };
  watch.name = [&](int32_t rank) { return places.Name(rank); };
  watch.place = [&](const WorkerProgress& progress, int32_t rank) {
    return places.Text(progress.Load(), rank);
  };
  watch.work = [&](const WorkerProgress& progress, int32_t rank) {
    return places.Work(progress.Load(), rank);
  };
  watch.hint = [](const ProcessSlot& first) { return GoOnHint(first.directory.data()); };
  watch.asked_to_stop = [] { Say("{}", kStopping); };
  watch.patience = training.config.stuck_after;
  watch.silence = Milliseconds(training.config.silent_after);
  const auto work = [&](int32_t rank, ProcessSlot& slot) -> Status {
    front.StopOn([&slot] { return slot.stop.load(); });
    front.OnOpened([&slot](const std::string& path) { WriteText(slot.directory, path); });
    C10dOptions options;
    HEDDLE_ASSIGN(options.store, seats.Take(rank, Milliseconds(training.config.meet_within)));
    seats.CloseRest();
    HEDDLE_ASSIGN(const int code,
                  RunRank(training, rank, options, "a process each", front, &slot.progress));
    if (rank == 0) slot.said = 1 + code;
    return Ok();
  };
  const Status status =
      RunProcesses(static_cast<int32_t>(program.devices.size()), work, watch, &end);
  return CodeOfEnd(status, end);
}

// A plan of the same strategy for the cluster without one device.
Result<LoadedPlan> PlanWithout(const LoadedPlan& loaded, const std::string& device,
                               const Profile* profile) {
  LoadedPlan smaller;
  HEDDLE_ASSIGN(ClusterSpec spec, WithoutDevice(loaded.cluster->spec(), device));
  HEDDLE_ASSIGN(Cluster cluster, Cluster::Make(std::move(spec), "the remaining cluster"));
  smaller.cluster = std::make_unique<Cluster>(std::move(cluster));
  PlanRequest request = loaded.plan.request;
  request.microbatches.reset();
  HEDDLE_ASSIGN(Planning planning, Planning::Make(request, *smaller.cluster, profile));
  smaller.planning = std::make_unique<Planning>(std::move(planning));
  HEDDLE_ASSIGN(smaller.plan, MakePlan(loaded.plan.strategy, *smaller.planning));
  return smaller;
}

// How this rank watches the others. What is given must outlive it.
PeerWatchOptions WatchOf(const LaunchedRank& launched, const RunConfig& config,
                         const Places& places, const std::string& directory) {
  PeerWatchOptions options;
  options.rank = launched.rank;
  options.ranks = launched.ranks;
  options.patience = config.stuck_after;
  options.silence = Milliseconds(config.silent_after);
  options.name = [&](int32_t rank) { return places.Name(rank); };
  options.place = [&](int64_t place, int32_t rank) {
    return places.Text(WorkerProgress::Unpack(place), rank);
  };
  options.work = [&](int64_t place, int32_t rank) {
    return places.Work(WorkerProgress::Unpack(place), rank);
  };
  // Only the first is sure to see the run's directory.
  options.hint = [&] {
    const bool knows = launched.rank == 0 || !ListCheckpoints(directory).empty();
    return knows ? GoOnHint(directory) : std::string();
  };
  // Another was asked to end at once.
  options.code = [] {
    return FirstStop() != 0 ? CodeOf(FirstStop()) : static_cast<int>(ErrorKind::kRunFailed);
  };
  return options;
}

}  // namespace

Result<std::shared_ptr<RankAttendance>> AttendMeeting(const RunConfig& config,
                                                      const LaunchedRank& launched) {
  MeetingOptions options;
  options.environment = [](const char* name) { return std::getenv(name); };
  options.secret_file = config.secret_file;
  options.interface = config.interface;
  options.meet_within = Milliseconds(config.meet_within);
  options.note = [](const std::string& line) { Say("{}\n", line); };
  HEDDLE_ASSIGN(std::shared_ptr<RankAttendance> attendance,
                RankAttendance::Begin(launched, options));
  if (launched.rank == 0) {
    Say("{}: {} processes meet at {}, this host is {} to them\n", launched.launcher, launched.ranks,
        attendance->meeting().place().ToString(), attendance->meeting().interface_address());
  }
  return attendance;
}

Result<int> RunLaunched(const Training& training, const LoadedPlan& loaded,
                        RankAttendance& attendance, RunFront& front) {
  const LaunchedRank& launched = attendance.launched();
  const auto devices = static_cast<int32_t>(training.program.devices.size());
  if (launched.ranks != devices) {
    return BadInput(
        launched.launcher,
        fmt::format("started {} processes, the plan has {} devices", launched.ranks, devices),
        "start one process per device");
  }
  if (training.config.elastic) {
    return Error{
        ErrorKind::kUsage, "--elastic",
        fmt::format("{} started the processes, and cannot start others", launched.launcher),
        "leave it out, or run without a launcher"};
  }
  HEDDLE_ASSIGN(const Places places, Places::Make(training.program, loaded));
  EndOnInterrupts();
  HEDDLE_ASSIGN(const std::shared_ptr<StoreClient> store, attendance.Store());
  HEDDLE_ASSIGN(const DType dtype, TrainedType(*training.plan, training.config));
  const std::string plan_hash = HashOf(JsonText(PlanToJson(*training.plan, *training.graph)));
  HEDDLE_ASSIGN(const RunIdentity identity, IdentityOf(training.config, plan_hash, dtype));
  const auto name = [&](int32_t rank) { return places.Name(rank); };
  HEDDLE_RETURN_IF_ERROR(AgreeOnIdentity(*store, launched.rank, launched.ranks, identity, name,
                                         Milliseconds(training.config.meet_within)));
  C10dOptions options;
  options.interface_address = attendance.meeting().interface_address();
  HEDDLE_ASSIGN(options.store, attendance.meeting().Connect());
  std::string directory = training.config.directory;
  front.OnOpened([&](const std::string& path) { directory = path; });
  WorkerProgress progress;
  PeerWatchOptions watch_options = WatchOf(launched, training.config, places, directory);
  watch_options.progress = &progress;
  watch_options.store = store;
  PeerWatch watch(std::move(watch_options));
  attendance.HasMet();
  try {
    // Launchers tell all processes at once: once they are connected the first decides when to stop.
    const Result<int> code =
        RunRank(training, launched.rank, options, "processes of " + launched.launcher, front,
                &progress, [] { CatchInterrupts(); });
    if (!code.ok()) watch.Leave(code.error());
    return code;
  } catch (const PeerLost& lost) {
    if (FirstStop() != 0) return CodeOf(FirstStop());  // another was asked twice
    watch.AwaitVerdict();
    return Error{ErrorKind::kRunFailed, places.Name(launched.rank),
                 std::string("lost the others: ") + lost.what(), "the one that failed says why"};
  }
}

Result<int> RunInProcesses(const Training& training, const LoadedPlan& loaded, RunFront& front) {
  ProcessesEnd end;
  return RunWatched(training, loaded, front, end);
}

Result<int> RunElastic(const PlanAndProfile& both, RunConfig config, bool as_json) {
  LoadedPlan replanned;
  const LoadedPlan* current = &both.loaded;
  std::string run = config.directory;
  if (run.empty() && !config.resume.empty()) {
    HEDDLE_ASSIGN(ResumePoint point, FindResumePoint(config.resume));
    run = std::move(point.run);
  }
  if (run.empty()) {
    HEDDLE_ASSIGN(
        const RunDirectory fresh,
        RunDirectory::CreateNamed("runs", current->plan.request.model, std::time(nullptr)));
    run = config.directory = fresh.path();
  }
  while (true) {
    HEDDLE_ASSIGN(const Training training, PrepareTraining(current->plan, current->planning->graph,
                                                           config, MakeTorchExecutor));
    RunFront front(current->plan, as_json);
    ProcessesEnd end;
    const Result<int> code = RunWatched(training, *current, front, end);
    if (code.ok() || !end.lost || training.program.devices.size() == 1) return code;
    const std::string device = training.program.devices[static_cast<size_t>(*end.lost)].name;
    Say("heddle: {}\n", code.error().ToString());
    HEDDLE_ASSIGN(const std::string checkpoint, LatestCheckpoint(run));
    HEDDLE_ASSIGN(LoadedPlan smaller, PlanWithout(*current, device, both.profile.get()));
    Say("heddle: without {}: {} on {} devices, on from {}\n", device, smaller.plan.strategy,
        smaller.plan.devices_used(), checkpoint);
    replanned = std::move(smaller);
    current = &replanned;
    config.resume = run;
    config.directory.clear();
  }
}

}  // namespace heddle
