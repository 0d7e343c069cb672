// heddle-worker share: several jobs on the same devices. First each alone, one after the other, then
// all in turns; what it took, and whether every job's parameters were the same after every step.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/version.h"
#include "run/processes.h"
#include "run/share/share_mail.h"
#include "run/share/shared_device.h"
#include "run/torch/c10d_communicator.h"
#include "run/torch/tensor_memory.h"
#include "worker/commands.h"
#include "worker/share_jobs.h"

namespace heddle {
namespace {

using JobPtr = std::unique_ptr<ShareJob>;

// One go at running some of the jobs.
struct Phase {
  std::string name;  // also a folder of the share's directory
  ShareManner manner = ShareManner::kAlone;
  bool ordered = true;
  double dilation = 0;
  int64_t steps = 0;  // 0: the job's own
};

class Share {
 public:
  explicit Share(const ShareConfig& config) : config_(config) {}

  Result<ShareSummary> Run() {
    for (const ShareJobConfig& job : config_.jobs) {
      HEDDLE_ASSIGN(JobPtr loaded, LoadShareJob(job, devices_, true));
      jobs_.push_back(std::move(loaded));
    }
    HEDDLE_RETURN_IF_ERROR(CheckJobs());
    HEDDLE_RETURN_IF_ERROR(MakeDirectories(config_.directory));
    ordered_ = std::all_of(jobs_.begin(), jobs_.end(),
                           [](const JobPtr& job) { return job->whole_steps; });
    if (config_.emulate) HEDDLE_RETURN_IF_ERROR(ChooseDilation());
    std::vector<JobRun> alone;
    if (config_.serial) {
      HEDDLE_ASSIGN(alone, RunAlone({"alone", ShareManner::kAlone, true, dilation_, 0}));
      for (size_t k = 0; k < jobs_.size(); ++k) {
        real_step_seconds_[jobs_[k]->config.name] =
            alone[k].seconds() / static_cast<double>(jobs_[k]->config.steps);
      }
    }
    HEDDLE_ASSIGN(const std::vector<JobRun> shared,
                  RunShared({"shared", config_.manner, ordered_, dilation_, 0}));
    return Summarise(alone, shared, Parts(alone), dilation_);
  }

 private:
  Status CheckJobs() const {
    if (!config_.emulate) return Ok();
    for (const JobPtr& job : jobs_) {
      if (job->whole_steps) continue;
      return BadInput("job " + job->config.name,
                      fmt::format("a {} plan exchanges in the middle of a step; only data-parallel "
                                  "jobs can be shared with --emulate",
                                  job->both.loaded.plan.strategy),
                      "leave out --emulate, or plan it with --strategy dp");
    }
    return Ok();
  }

  std::string DirectoryOf(const Phase& phase, const ShareJob& job) const {
    return fmt::format("{}/{}/{}", config_.directory, phase.name, job.config.name);
  }
  std::string NotesPath(const Phase& phase, const ShareJob& job, int32_t rank) const {
    return fmt::format("{}/rank{}.json", DirectoryOf(phase, job), rank);
  }

  // A generous multiple of what a turn should take, and a constant for a busy machine.
  JobEntry EntryOf(const ShareJob& job, const Phase& phase) const {
    constexpr double kPatience = 20, kConstant = 3, kUnknown = 120;
    double period = 0;
    for (const JobPtr& other : jobs_) {
      const auto known = real_step_seconds_.find(other->config.name);
      period += phase.dilation > 0
                    ? phase.dilation * (other->modelled.compute + other->modelled.network)
                : known != real_step_seconds_.end() ? known->second
                                                    : kUnknown;
    }
    JobEntry entry;
    entry.name = job.config.name;
    entry.devices = job.devices;
    entry.turns = phase.steps > 0 ? INT32_MAX : job.turns;
    entry.turn_seconds = job.modelled.compute;
    entry.weight = job.config.weight;
    entry.token_lease = kPatience * period + kConstant;
    entry.network_lease = kPatience * period + kConstant;
    return entry;
  }

  Seat SeatOf(const ShareJob& job, const Phase& phase, const Board& board, int32_t number,
              int32_t rank) const {
    Seat seat{board, number, rank, phase.manner, phase.ordered,
              phase.steps > 0 ? phase.steps : job.config.steps, {}};
    if (!config_.emulate) return seat;
    seat.pace.dilation = phase.dilation;
    for (size_t s = 0; s < job.training.program.segments.size(); ++s) {
      seat.pace.segment_seconds.push_back(job.segment_seconds.Of(rank, static_cast<int32_t>(s)));
    }
    seat.pace.collective_seconds = [&job](const CollectiveCall& call) {
      return job.CollectiveSeconds(call);
    };
    return seat;
  }

  // The life of one rank.
  Status RunRank(const ShareJob& job, const Phase& phase, const Board& board, int32_t number,
                 int32_t rank, int port, ProcessSlot& slot) const {
    const Program& program = job.training.program;
    C10dOptions options;
    options.port = static_cast<uint16_t>(port);
    options.device = rank;
    options.devices = static_cast<int32_t>(program.devices.size());
    options.identity = kVersion;
    for (const Group& group : program.groups) options.groups.push_back(group.devices);
    HEDDLE_ASSIGN(const std::unique_ptr<Communicator> communicator, ConnectC10d(options));
    SharedDevice shared(SeatOf(job, phase, board, number, rank), *communicator);
    RankHooks hooks{&shared.turns(), [&](Executor& executor) { return shared.Wrap(executor); }};
    Training training = job.training;
    training.config.directory = DirectoryOf(phase, job);
    if (phase.steps > 0) training.config.steps = phase.steps;
    const Result<RunResult> trained = TrainRank(training, rank, shared.communicator(), {},
                                                "a process each", &slot.progress, hooks);
    if (!trained.ok()) return trained.error();
    return WriteFile(NotesPath(phase, job, rank), RankNotesToJson(shared.notes()).dump() + "\n");
  }

  // The life of a job's first process.
  Status Lead(const ShareJob& job, const Phase& phase, const Board& board, int32_t number) const {
    const Program& program = job.training.program;
    std::unique_ptr<Rendezvous> rendezvous;
    ProcessWatch watch;
    watch.silence = std::chrono::milliseconds(1500);
    watch.after_fork = [&]() -> Result<int> {
      HEDDLE_ASSIGN(rendezvous, HostRendezvous(0));
      return rendezvous->port();
    };
    watch.name = [&](int32_t rank) {
      return fmt::format("device {} ({})", rank, program.devices[static_cast<size_t>(rank)].name);
    };
    watch.place = [](const WorkerProgress& progress, int32_t) {
      const std::optional<WorkerPlace> place = progress.Load();
      return place ? fmt::format("in step {}", place->step + 1)
                   : std::string("before its first step");
    };
    // Whoever has the device too long loses it by its lease.
    watch.computing = [](const WorkerProgress&, int32_t) { return false; };
    return RunProcesses(
        static_cast<int>(program.devices.size()),
        [&](int32_t rank, ProcessSlot& slot, int port) {
          return RunRank(job, phase, board, number, rank, port, slot);
        },
        watch);
  }

  Result<std::vector<RankNotes>> ReadNotes(const ShareJob& job, const Phase& phase) const {
    std::vector<RankNotes> notes;
    for (size_t rank = 0; rank < job.training.program.devices.size(); ++rank) {
      const std::string path = NotesPath(phase, job, static_cast<int32_t>(rank));
      HEDDLE_ASSIGN(const std::string text, ReadFile(path));
      HEDDLE_ASSIGN(const Json json, ParseJson(text, path));
      HEDDLE_ASSIGN(RankNotes note, RankNotesFromJson(JsonField(json, path)));
      notes.push_back(std::move(note));
    }
    return notes;
  }

  Result<JobRun> RunOf(const ShareJob& job, const Phase& phase, const JobOutcome& outcome) const {
    JobRun run{outcome, {}};
    if (outcome.well) {
      HEDDLE_ASSIGN(run.ranks, ReadNotes(job, phase));
    }
    return run;
  }

  Status Join(Supervisor& supervisor, Board& board, const ShareJob& job, const Phase& phase) {
    std::filesystem::remove_all(DirectoryOf(phase, job));
    HEDDLE_ASSIGN(const int32_t number, board.AddJob(EntryOf(job, phase)));
    return supervisor.Start({job.config.name, number, [this, &job, phase, &board, number] {
                               return Lead(job, phase, board, number);
                             }});
  }

  // Each job alone, one after the other. All must end well.
  Result<std::vector<JobRun>> RunAlone(const Phase& phase) {
    std::vector<JobRun> runs;
    for (const JobPtr& job : jobs_) {
      fmt::print(stderr, "{}: {} by itself\n", phase.name, job->config.name);
      HEDDLE_ASSIGN(Board board, Board::Create({TurnOrder::kRotation, devices_.node_of}));
      Supervisor supervisor(board, {});
      HEDDLE_RETURN_IF_ERROR(Join(supervisor, board, *job, phase));
      const std::vector<JobOutcome> outcomes = supervisor.Watch();
      if (!outcomes[0].well) {
        return Error{ErrorKind::kRunFailed, "job " + job->config.name,
                     "failed by itself: " + outcomes[0].why, ""};
      }
      HEDDLE_ASSIGN(JobRun run, RunOf(*job, phase, outcomes[0]));
      runs.push_back(std::move(run));
    }
    return runs;
  }

  Result<std::vector<JobRun>> RunShared(const Phase& phase) {
    const TurnOrder order = phase.ordered ? config_.order : TurnOrder::kArrival;
    fmt::print(stderr, "{}: {} jobs on {} devices, {}\n", phase.name, jobs_.size(),
               devices_.names.size(),
               phase.manner == ShareManner::kTurns
                   ? fmt::format("in turns ({})", NameOf(order))
                   : std::string(NameOf(phase.manner)));
    HEDDLE_ASSIGN(Board board, Board::Create({order, devices_.node_of}));
    HEDDLE_RETURN_IF_ERROR(OpenMailbox(config_.directory));
    Supervisor* running = nullptr;
    Supervisor::Options options;
    options.newcomers = [&] {
      TakeNewcomers(*running, board, phase);
      return false;
    };
    options.ended = [&](const JobOutcome& outcome) { Tell(board, outcome); };
    Supervisor supervisor(board, options);
    running = &supervisor;
    for (const JobPtr& job : jobs_) HEDDLE_RETURN_IF_ERROR(Join(supervisor, board, *job, phase));
    const std::vector<JobOutcome> outcomes = supervisor.Watch();
    CloseMailbox(config_.directory);
    std::vector<JobRun> runs;
    for (size_t k = 0; k < outcomes.size(); ++k) {
      HEDDLE_ASSIGN(JobRun run, RunOf(*jobs_[k], phase, outcomes[k]));
      runs.push_back(std::move(run));
    }
    return runs;
  }

  void Tell(const Board& board, const JobOutcome& outcome) const {
    if (outcome.well) {
      fmt::print(stderr, "{}: done, in the order since turn {}\n", outcome.name,
                 board.first_turn(outcome.number));
    } else {
      fmt::print(stderr, "{}: failed: {}\n", outcome.name, outcome.why);
    }
    const auto came_later = [&](const JobPtr& job) { return job->config.name == outcome.name; };
    const auto first = jobs_.begin() + static_cast<std::ptrdiff_t>(config_.jobs.size());
    if (std::any_of(first, jobs_.end(), came_later)) (void)Answer(config_.directory, outcome).ok();
  }

  // Jobs that ask to join. One that cannot is told why; those that run do not notice.
  void TakeNewcomers(Supervisor& supervisor, Board& board, const Phase& phase) {
    for (const Mail& mail : TakeMail(config_.directory)) {
      const Status joined = JoinLater(supervisor, board, phase, mail);
      if (joined.ok()) {
        fmt::print(stderr, "{}: joins\n", mail.name);
      } else {
        (void)Answer(config_.directory, {mail.name, 0, false, joined.error().ToString(), 0, 0}).ok();
      }
    }
  }

  Status JoinLater(Supervisor& supervisor, Board& board, const Phase& phase, const Mail& mail) {
    if (!mail.job.ok()) return mail.job.error();
    const auto same = [&](const JobPtr& job) { return job->config.name == mail.name; };
    if (std::any_of(jobs_.begin(), jobs_.end(), same)) {
      return BadInput("job " + mail.name, "the share has a job of this name",
                      "choose another name");
    }
    HEDDLE_ASSIGN(JobPtr job, LoadShareJob(mail.job.value(), devices_, false));
    if (phase.ordered && !job->whole_steps) {
      return BadInput("job " + mail.name,
                      "it exchanges in the middle of a step, and the jobs that run go in one order",
                      "plan it with --strategy dp");
    }
    jobs_.push_back(std::move(job));
    return Join(supervisor, board, *jobs_.back(), phase);
  }

  // After some steps that were not paced: how much slower must time go, so that the real work of
  // all jobs fits into modelled time?
  Status ChooseDilation() {
    dilation_ = config_.dilate;
    if (dilation_ > 0) return Ok();
    constexpr double kRoom = 2, kLeastSeconds = 0.02, kCores = 2;
    constexpr int64_t kSteps = 4;
    HEDDLE_ASSIGN(const std::vector<JobRun> runs,
                  RunAlone({"calibration", ShareManner::kAlone, true, 0, kSteps}));
    for (size_t k = 0; k < runs.size(); ++k) {
      const double step = jobs_[k]->modelled.compute + jobs_[k]->modelled.network;
      double work = 0;
      for (const RankNotes& rank : runs[k].ranks) {
        dilation_ = std::max(dilation_, kRoom * rank.longest_ratio);
        work += rank.work / static_cast<double>(kSteps - 1);
      }
      dilation_ = std::max({dilation_, kLeastSeconds / step, kRoom * work / kCores / step});
    }
    fmt::print(stderr, "time goes {:.3g} times slower, so that real work fits in\n", dilation_);
    return Ok();
  }

  // Seconds of a step on devices and on the network: modelled, or as they were alone.
  std::vector<StepParts> Parts(const std::vector<JobRun>& alone) const {
    std::vector<StepParts> parts;
    if (config_.emulate) {
      for (size_t k = 0; k < config_.jobs.size(); ++k) parts.push_back(jobs_[k]->modelled);
      return parts;
    }
    for (const JobRun& run : alone) {
      StepParts part;
      for (const RankNotes& rank : run.ranks) {
        const auto steps = static_cast<double>(std::max<size_t>(1, rank.step_ends.size()));
        part.compute = std::max(part.compute, static_cast<double>(rank.held) * 1e-9 / steps);
      }
      const JobRun one[] = {run};
      part.network = std::max(0.0, MeasuredPeriod(one) - part.compute);
      parts.push_back(part);
    }
    return parts;
  }

  const ShareConfig& config_;
  ShareDevices devices_;
  std::vector<JobPtr> jobs_;  // those of the config, then those that came later
  bool ordered_ = true;
  double dilation_ = 0;
  std::map<std::string, double> real_step_seconds_;  // alone
};

}  // namespace

Status ShareCommand(const Words& words) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "share configuration"));
  HEDDLE_ASSIGN(const ShareConfig config,
                ShareConfigFromJson(JsonField(json, "share configuration")));
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  InstallTensorMemory();
  HEDDLE_ASSIGN(const ShareSummary summary, Share(config).Run());
  const Json result = ShareSummaryToJson(summary);
  HEDDLE_RETURN_IF_ERROR(WriteFile(config.directory + "/result.json", result.dump(2) + "\n"));
  fmt::print("{}", as_json ? result.dump(2) + "\n" : ShareSummaryText(summary));
  std::fflush(stdout);
  if (const ShareSummary::Job* failed = summary.failed(); failed != nullptr) {
    return Error{ErrorKind::kRunFailed, "job " + failed->name, failed->why,
                 "the other jobs went on without it"};
  }
  if (config.serial && !summary.hashes_equal()) {
    return Error{ErrorKind::kParity, "share",
                 "a job's parameters are not those it has when it runs alone", ""};
  }
  return Ok();
}

}  // namespace heddle
