#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iterator>
#include <optional>

#include "base/hash.h"
#include "base/json_field.h"
#include "base/version.h"
#include "choose/planners.h"
#include "cluster/without_device.h"
#include "program/lower/lower.h"
#include "program/text/program_text.h"
#include "report/perfetto.h"
#include "report/sparkline.h"
#include "run/launched_rank.h"
#include "run/processes.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/timed_run.h"
#include "run/torch/c10d_communicator.h"
#include "run/torch/peer_watch.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/train.h"
#include "worker/commands.h"
#include "worker/emulated_network.h"

namespace heddle {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnInterrupt(int) {
  if (interrupted != 0) _exit(128 + SIGINT);  // asked twice
  interrupted = 1;
}

// One line that is rewritten on a terminal, some twenty lines elsewhere.
class Progress {
 public:
  Progress() : terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

  void Note(const std::string& line) {
    Clear();
    fmt::print(stderr, "{}\n", line);
  }

  void Step(int64_t step, int64_t steps, double loss) {
    if (first_ < 0) {
      first_ = step - 1;
      start_ = Clock::now();
    }
    const bool last = step == steps;
    const bool due = terminal_ ? Since(shown_) > 0.1 : step % std::max<int64_t>(1, steps / 20) == 0;
    if (!due && !last) return;
    shown_ = Clock::now();
    const double per_second = static_cast<double>(step - first_ - 1) / Since(start_);
    std::string line = fmt::format("step {}/{}  loss {:.5g}", step, steps, loss);
    if (per_second > 0) {
      line += fmt::format("  {:.3g} steps/s  {:.0f} s left", per_second,
                          static_cast<double>(steps - step) / per_second);
    }
    Clear();
    fmt::print(stderr, "{}{}", line, terminal_ ? "" : "\n");
    open_ = terminal_;
  }

  void Clear() {
    if (open_) fmt::print(stderr, "\r\033[K");
    open_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double Since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }

  bool terminal_;
  bool open_ = false;  // a line without its end
  int64_t first_ = -1;
  Clock::time_point start_, shown_;
};

Json ToJson(const RunResult& result) {
  Json held_out = Json::array();
  for (const RunResult::Evaluated& e : result.held_out) {
    held_out.push_back({{"step", e.step}, {"loss", e.loss}});
  }
  return {{"schema", "heddle.run/1"},
          {"steps", result.first_step + result.steps()},
          {"first_step", result.first_step},
          {"loss", result.losses},
          {"held_out", std::move(held_out)},
          {"measured_iteration_seconds", result.measured_iteration_seconds},
          {"predicted_iteration_seconds", result.predicted_iteration_seconds},
          {"emulated", result.emulated},
          {"dilation", result.dilation},
          {"deadlines", result.deadlines},
          {"missed_deadlines", result.missed},
          {"parameter_hash", result.parameter_hash},
          {"directory", result.directory},
          {"checkpoint", result.checkpoint},
          {"interrupted", result.interrupted}};
}

std::string Time(double seconds) { return ToText(Seconds{seconds}); }

void PrintSummary(const RunResult& result, const Plan& plan) {
  const int64_t steps = result.steps();
  const bool timed = result.timed_steps > 0;
  fmt::print("{} {} of {}, steps {} to {}{}\n",
             result.interrupted ? "interrupted:"
             : timed            ? "kept the time of"
                                : "trained",
             plan.strategy, plan.model, result.first_step + 1, result.first_step + steps,
             steps == 0 ? " (none)" : "");
  if (!result.losses.empty()) {
    constexpr int kWidth = 40;
    fmt::print("loss        {:.4f} to {:.4f}  {}\n", result.losses.front(), result.losses.back(),
               Sparkline(result.losses, kWidth));
  }
  if (!result.held_out.empty()) fmt::print("held out    {:.4f}\n", result.held_out.back().loss);
  fmt::print(
      "step        {} measured ({}, median), {} predicted (simulated, for the plan's "
      "cluster)\n",
      Time(result.measured_iteration_seconds), result.emulated ? "emulated" : "real",
      Time(result.predicted_iteration_seconds));
  if (result.emulated) {
    const double share = result.deadlines > 0 ? 100.0 * static_cast<double>(result.missed) /
                                                    static_cast<double>(result.deadlines)
                                              : 0;
    fmt::print("pace        time {:.3g} times slower, {} of {} deadlines missed ({:.2g}%){}\n",
               result.dilation, result.missed, result.deadlines, share,
               share > 1 ? ": not valid, give a larger --dilate" : "");
  }
  if (!timed) fmt::print("parameters  {}\n", result.parameter_hash);
  fmt::print("run         {}\n", result.directory);
  if (result.interrupted && !timed) fmt::print("go on with  --resume {}\n", result.directory);
}

// Shows progress, prints the result, leaves the timeline. For the first rank.
class Front {
 public:
  Front(const Plan& plan, bool as_json) : plan_(plan), as_json_(as_json) {
    listener_.note = [this](const std::string& line) { progress_.Note(line); };
    listener_.step = [this](int64_t step, int64_t steps, double loss, double) {
      progress_.Step(step, steps, loss);
    };
    listener_.interrupted = [] { return interrupted != 0; };
  }

  const RunListener& listener() const { return listener_; }

  Status Conclude(const Result<RunResult>& trained) {
    progress_.Clear();
    if (!trained.ok()) return trained.error();
    const RunResult& result = trained.value();
    HEDDLE_ASSIGN(const RunDirectory directory, RunDirectory::Open(result.directory));
    HEDDLE_RETURN_IF_ERROR(directory.WriteTimeline(PerfettoJson(result.timeline)));
    if (as_json_) {
      fmt::print("{}\n", ToJson(result).dump(2));
    } else {
      PrintSummary(result, plan_);
    }
    return Ok();
  }

 private:
  const Plan& plan_;
  bool as_json_;
  Progress progress_;
  RunListener listener_;
};

// The instruction that a device is at; null between two parts of the run.
const Instruction* InstructionAt(const Program& program, const std::optional<WorkerPlace>& place,
                                 int32_t rank) {
  if (!place) return nullptr;
  const auto& list = program.devices[static_cast<size_t>(rank)].list(place->section);
  return place->instruction < std::ssize(list) ? &list[static_cast<size_t>(place->instruction)]
                                               : nullptr;
}

// "in step 17, at "compute B2 #3"" for people.
std::string TextOf(const Program& program, const std::optional<WorkerPlace>& place, int32_t rank) {
  if (!place) return "before its first step";
  const Instruction* at = InstructionAt(program, place, rank);
  if (at == nullptr) return fmt::format("after step {}", place->step + 1);
  return fmt::format("in step {}, at \"{}\"", place->step + 1,
                     PrintInstruction(program, program.devices[static_cast<size_t>(rank)], *at));
}

bool Computing(const Program& program, const std::optional<WorkerPlace>& place, int32_t rank) {
  const Instruction* at = InstructionAt(program, place, rank);
  return at != nullptr && at->code == OpCode::kCompute;
}

std::string NameOf(const Program& program, int32_t rank) {
  return fmt::format("device {} ({})", rank, program.devices[static_cast<size_t>(rank)].name);
}

// One rank over c10d, in whatever process it is.
Status RunRank(
    const Training& training, int32_t rank, C10dOptions options, const std::string& where,
    Front& front, WorkerProgress* progress, const std::function<void()>& all_have_met = [] {}) {
  const Program& program = training.program;
  options.device = rank;
  options.devices = static_cast<int32_t>(program.devices.size());
  options.native_all_reduce = training.config.native_collectives;
  options.meet_within =
      std::chrono::milliseconds(static_cast<int64_t>(1e3 * training.config.meet_within));
  options.identity =
      fmt::format("heddle {}, plan {}", kVersion, HashOf(PlanToJson(*training.plan).dump()));
  for (const Group& group : program.groups) options.groups.push_back(group.devices);
  HEDDLE_ASSIGN(const std::unique_ptr<Communicator> communicator, ConnectC10d(options));
  all_have_met();
  const Result<RunResult> trained =
      TrainRank(training, rank, *communicator, front.listener(), where, progress);
  if (rank == 0) return front.Conclude(trained);
  return trained.ok() ? Ok() : Status(trained.error());
}

// This process is one rank of many that a launcher started.
Status RunLaunched(const Training& training, const LaunchedRank& launched, Front& front) {
  const auto devices = static_cast<int32_t>(training.program.devices.size());
  if (launched.ranks != devices) {
    return BadInput(
        launched.launcher,
        fmt::format("started {} processes, the plan has {} devices", launched.ranks, devices),
        "start one process per device");
  }
  std::unique_ptr<Rendezvous> rendezvous;
  if (launched.rank == 0) {
    std::signal(SIGINT, OnInterrupt);
    std::signal(SIGTERM, OnInterrupt);
    HEDDLE_ASSIGN(rendezvous, HostRendezvous(launched.port));
  }
  C10dOptions options;
  options.address = launched.address;
  options.port = launched.port;
  HEDDLE_ASSIGN(options.interface_address, AddressTowards(launched.address, launched.port));
  if (launched.rank == 0) {
    fmt::print(stderr, "{}: {} processes meet at {}:{}, this host is {} to them\n",
               launched.launcher, launched.ranks, launched.address, launched.port,
               options.interface_address);
  }
  const Program& program = training.program;
  WorkerProgress progress;
  PeerWatchOptions watch_options;
  watch_options.address = launched.address;
  watch_options.port = launched.port;
  watch_options.rank = launched.rank;
  watch_options.ranks = launched.ranks;
  watch_options.progress = &progress;
  watch_options.name = [&](int32_t rank) { return NameOf(program, rank); };
  watch_options.place = [&](int64_t place, int32_t rank) {
    return TextOf(program, WorkerProgress::Unpack(place), rank);
  };
  watch_options.computing = [&](int64_t place, int32_t rank) {
    return Computing(program, WorkerProgress::Unpack(place), rank);
  };
  std::optional<PeerWatch> watch;
  try {
    return RunRank(training, launched.rank, options, "processes of " + launched.launcher, front,
                   &progress, [&] { watch.emplace(watch_options); });
  } catch (const PeerLost& lost) {
    watch->AwaitVerdict();
    return Error{ErrorKind::kRunFailed, NameOf(program, launched.rank),
                 std::string("lost the others: ") + lost.what(),
                 "the one that failed says why; go on with --resume"};
  }
}

Status RunInProcesses(const Training& training, Front& front, std::optional<int32_t>* lost) {
  const Program& program = training.program;
  const auto devices = static_cast<int32_t>(program.devices.size());
  std::unique_ptr<Rendezvous> rendezvous;
  ProcessWatch watch;
  watch.after_fork = [&]() -> Result<int> {
    HEDDLE_ASSIGN(rendezvous, HostRendezvous(static_cast<uint16_t>(training.config.port)));
    return rendezvous->port();
  };
  watch.name = [&](int32_t rank) { return NameOf(program, rank); };
  watch.place = [&](const WorkerProgress& progress, int32_t rank) {
    return TextOf(program, progress.Load(), rank);
  };
  watch.computing = [&](const WorkerProgress& progress, int32_t rank) {
    return Computing(program, progress.Load(), rank);
  };
  const auto work = [&](int32_t rank, ProcessSlot& slot, int port) -> Status {
    if (rank == 0) std::signal(SIGTERM, OnInterrupt);
    C10dOptions options;
    options.port = static_cast<uint16_t>(port);
    return RunRank(training, rank, options, "a process each", front, &slot.progress);
  };
  return RunProcesses(devices, work, watch, lost);
}

// A plan of the same strategy for the cluster without one device.
Result<LoadedPlan> PlanWithout(const LoadedPlan& loaded, const std::string& device,
                               const Profile* profile) {
  LoadedPlan smaller;
  HEDDLE_ASSIGN(ClusterSpec spec, WithoutDevice(loaded.cluster->spec(), device));
  HEDDLE_ASSIGN(Cluster cluster, Cluster::Make(std::move(spec), "the remaining cluster"));
  smaller.cluster = std::make_unique<Cluster>(std::move(cluster));
  PlanOptions options = loaded.planning->options;
  options.microbatches.reset();
  HEDDLE_ASSIGN(Planning planning, Planning::Make(options, *smaller.cluster, profile));
  smaller.planning = std::make_unique<Planning>(std::move(planning));
  HEDDLE_ASSIGN(smaller.plan, MakePlan(loaded.plan.strategy, *smaller.planning));
  return smaller;
}

// Trains in processes; whenever a device is lost, goes on without it.
Status RunElastic(const PlanAndProfile& both, RunConfig config, bool as_json) {
  LoadedPlan replanned;
  const LoadedPlan* current = &both.loaded;
  if (config.directory.empty() && config.resume.empty()) {
    HEDDLE_ASSIGN(const RunDirectory fresh,
                  RunDirectory::CreateNamed("runs", current->plan.model, std::time(nullptr)));
    config.directory = fresh.path();
  }
  while (true) {
    HEDDLE_ASSIGN(const Training training,
                  PrepareTraining(current->plan, current->planning->graph, config));
    Front front(current->plan, as_json);
    std::optional<int32_t> lost;
    const Status status = RunInProcesses(training, front, &lost);
    if (status.ok() || !lost || training.program.devices.size() == 1) return status;
    const std::string device = training.program.devices[static_cast<size_t>(*lost)].name;
    fmt::print(stderr, "heddle: {}\n", status.error().ToString());
    const std::string run = config.directory.empty() ? config.resume : config.directory;
    HEDDLE_ASSIGN(const std::string checkpoint, LatestCheckpoint(run));
    HEDDLE_ASSIGN(LoadedPlan smaller, PlanWithout(*current, device, both.profile.get()));
    fmt::print(stderr, "heddle: without {}: {} on {} devices, on from {}\n", device,
               smaller.plan.strategy, smaller.plan.devices_used(), checkpoint);
    replanned = std::move(smaller);
    current = &replanned;
    config.resume = run;
    config.directory.clear();
  }
}

// The run's directory with what it was asked to do.
Result<RunDirectory> OpenTimedDirectory(const Plan& plan, const RunConfig& config) {
  Result<RunDirectory> opened =
      config.directory.empty() ? RunDirectory::CreateNamed("runs", plan.model, std::time(nullptr))
                               : RunDirectory::Create(config.directory);
  if (!opened.ok()) return opened.error();
  HEDDLE_RETURN_IF_ERROR(opened.value().WriteConfig(RunConfigToJson(config)));
  HEDDLE_RETURN_IF_ERROR(opened.value().WritePlan(PlanToJson(plan).dump(2) + "\n"));
  return opened;
}

double MedianAfterFirst(std::vector<double> values) {
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A model of which only times are known: devices keep time, nothing is computed.
Result<RunResult> RunProfiled(const LoadedPlan& loaded, const RunConfig& config,
                              const RunListener& listener) {
  if (!config.resume.empty() || !config.weights.empty() || config.elastic) {
    return BadInput(config.plan, "its model is a profile: there are no weights",
                    "leave out --resume, --weights and --elastic");
  }
  HEDDLE_ASSIGN(const Program program, LowerPlan(loaded.plan, loaded.planning->graph));
  HEDDLE_ASSIGN(const std::unique_ptr<Emulation> emulation,
                EmulatePlan(loaded, program, loaded.plan.dtype));
  HEDDLE_ASSIGN(RunDirectory directory, OpenTimedDirectory(loaded.plan, config));
  RunResult result;
  result.predicted_iteration_seconds = loaded.plan.estimate.iteration_seconds;
  result.emulated = true;
  result.directory = directory.path();
  result.dilation = config.dilate > 0
                        ? config.dilate
                        : DilationFor(program, *emulation, result.predicted_iteration_seconds);
  listener.note(fmt::format("{}: {} of {} on {} devices that only keep time, {:.3g} times slower",
                            directory.path(), loaded.plan.strategy, loaded.plan.model,
                            program.devices.size(), result.dilation));
  HEDDLE_ASSIGN(TimedResult timed, RunTimed(program, *emulation,
                                            {config.steps, result.dilation, listener.interrupted}));
  result.timed_steps = std::ssize(timed.seconds);
  for (size_t k = 0; k < timed.seconds.size(); ++k) {
    HEDDLE_RETURN_IF_ERROR(directory.Append({{"step", k + 1}, {"seconds", timed.seconds[k]}}));
  }
  result.interrupted = result.timed_steps < config.steps;
  result.measured_iteration_seconds = MedianAfterFirst(std::move(timed.seconds));
  result.deadlines = timed.deadlines;
  result.missed = timed.missed;
  result.timeline = std::move(timed.timeline);
  return result;
}

}  // namespace

Status RunCommand(const Words& words) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "run configuration"));
  HEDDLE_ASSIGN(const RunConfig config, RunConfigFromJson(JsonField(json, "run configuration")));
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(config.plan, config.profile));
  InstallTensorMemory();
  const Plan& plan = both.loaded.plan;
  const Graph& graph = both.loaded.planning->graph;
  Front front(plan, as_json);
  if (config.emulate && IsProfileSpec(plan.model)) {
    std::signal(SIGINT, OnInterrupt);
    std::signal(SIGTERM, OnInterrupt);
    return front.Conclude(RunProfiled(both.loaded, config, front.listener()));
  }
  HEDDLE_ASSIGN(Training training, PrepareTraining(plan, graph, config));
  if (!config.threads && !config.emulate) {
    HEDDLE_ASSIGN(
        const std::optional<LaunchedRank> launched,
        FindLaunchedRank([](const char* name) { return std::getenv(name); }, config.port));
    if (launched) return RunLaunched(training, *launched, front);
    return config.elastic ? RunElastic(both, config, as_json)
                          : RunInProcesses(training, front, nullptr);
  }
  std::unique_ptr<Emulation> emulation;
  if (config.emulate) {
    const DType dtype =
        config.dtype.value_or(plan.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    HEDDLE_ASSIGN(emulation, EmulatePlan(both.loaded, training.program, dtype));
    training.emulation = emulation.get();
  }
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  return front.Conclude(TrainOnThreads(training, front.listener()));
}

}  // namespace heddle
