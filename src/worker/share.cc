// heddle-worker share: several jobs on the same devices. First each alone, one after the other,
// then all in turns; what it took, and whether every job's parameters were the same after every
// step.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "base/directory_claim.h"
#include "base/file.h"
#include "base/json_text.h"
#include "office/network_office.h"
#include "run/share/share_dilation.h"
#include "run/share/share_mail.h"
#include "run/store/checkpoint.h"
#include "run/torch/tensor_memory.h"
#include "worker/commands.h"
#include "worker/interrupt.h"
#include "worker/output.h"
#include "worker/share_jobs.h"
#include "worker/share_rank.h"
#include "worker/share_rehearsal.h"

namespace heddle {
namespace {

using JobPtr = std::unique_ptr<ShareJob>;

class Share {
 public:
  explicit Share(const ShareConfig& config) : config_(config) {}

  Result<ShareSummary> Run() {
    HEDDLE_RETURN_IF_ERROR(ClaimDirectory());
    if (const Status loaded = LoadJobs(); !loaded.ok()) {
      LeaveNothing();
      return loaded.error();
    }
    if (config_.shaped > 0) HEDDLE_RETURN_IF_ERROR(FindHosts());
    if (config_.emulate) HEDDLE_RETURN_IF_ERROR(ChooseDilation());
    if (config_.shaped > 0) HEDDLE_RETURN_IF_ERROR(ShapeLinks());
    std::vector<JobRun> alone;
    if (config_.serial) {
      HEDDLE_ASSIGN(alone, RunAlone({"alone", ShareManner::kAlone, true, dilation_, 0}));
      const std::vector<StepParts> parts = Parts(alone);
      for (size_t k = 0; k < parts.size(); ++k) alone_parts_[jobs_[k]->config.name] = parts[k];
    }
    HEDDLE_ASSIGN(std::vector<JobRun> shared, RunGroups());
    return Summarise(Gathered(std::move(alone), std::move(shared)));
  }

 private:
  Status LoadJobs() {
    for (const ShareJobConfig& job : config_.jobs) {
      HEDDLE_ASSIGN(JobPtr loaded, LoadShareJob(job, devices_, true));
      jobs_.push_back(std::move(loaded));
    }
    return Ok();
  }

  // A share that was refused has a directory with its plans, and no use for it. What is not empty
  // stays.
  void LeaveNothing() const {
    namespace fs = std::filesystem;
    const fs::path directory = config_.directory;
    std::error_code ignored;
    for (const ShareJobConfig& job : config_.jobs) {
      fs::remove(directory / "plans" / (job.name + ".json"), ignored);
    }
    fs::remove(directory / "plans", ignored);
    if (fs::exists(directory / "plans", ignored)) return;
    fs::remove(directory / kClaimFile, ignored);
    fs::remove(directory, ignored);
  }

  // It is this share's until its last process has ended.
  Status ClaimDirectory() {
    if (auto adopted = DirectoryClaim::Adopt(config_.directory, config_.claim)) {
      claim_.emplace(std::move(*adopted));
      return Ok();
    }
    HEDDLE_RETURN_IF_ERROR(MakeDirectories(config_.directory));
    HEDDLE_ASSIGN(DirectoryClaim claim, DirectoryClaim::Take(config_.directory));
    claim_.emplace(std::move(claim));
    return Ok();
  }

  ShareRuns Gathered(std::vector<JobRun> alone, std::vector<JobRun> shared) const {
    ShareRuns runs;
    // Of what waits in mid-step nobody knows m.
    if (std::all_of(jobs_.begin(), jobs_.end(), [](const JobPtr& j) { return j->whole_steps; })) {
      runs.parts = Parts(alone);
    }
    for (const std::vector<int32_t>& group : Groups())
      runs.groups.push_back({group, Ordered(group)});
    for (const ShareJobConfig& job : config_.jobs) runs.predicted.push_back(job.predicted.value);
    runs.alone = std::move(alone);
    runs.shared = std::move(shared);
    runs.devices = devices_.names.size();
    runs.dilation = dilation_;
    runs.shaped = config_.shaped > 0;
    return runs;
  }

  // None of these jobs waits in mid-step.
  bool Ordered(const std::vector<int32_t>& group) const {
    return std::all_of(group.begin(), group.end(),
                       [&](int32_t k) { return jobs_[static_cast<size_t>(k)]->whole_steps; });
  }

  JobEntry EntryOf(const ShareJob& job, const SharePhase& phase) const {
    JobEntry entry;
    entry.name = job.config.name;
    entry.devices = job.devices;
    entry.turns = phase.repetitions > 0 ? INT32_MAX : job.turns;
    entry.times = job.times;
    entry.weight = job.config.weight;
    entry.lease = config_.lease;
    const auto alone = alone_parts_.find(job.config.name);
    if (phase.dilation > 0) {
      entry.expected_turn = phase.dilation * job.modelled.compute;
      entry.expected_network = phase.dilation * job.modelled.network;
    } else if (alone != alone_parts_.end()) {
      entry.expected_turn = alone->second.compute;
      entry.expected_network = alone->second.network;
    }
    return entry;
  }

  // What the jobs of a phase have in common.
  struct Stage {
    SharePhase phase;
    Board board;
    std::optional<FlowDesk> desk;
    std::optional<OfficeProcess> office;
    Listening office_beats;
  };

  Result<Stage> SetUp(const SharePhase& phase, TurnOrder order) const {
    HEDDLE_ASSIGN(Board board, Board::Create({order, devices_.node_of, config_.switch_cost}));
    Stage stage{phase, board, {}, {}, Listening(config_.Silence())};
    if (!phase.NeedsOffice(config_)) return stage;
    HEDDLE_ASSIGN(FlowDesk desk, FlowDesk::Create());
    stage.desk = desk;
    OfficeOptions options;
    options.tickets = phase.manner == ShareManner::kTurns && !phase.ordered;
    options.dilation = phase.PacesNetwork(config_) ? phase.dilation : 0;
    // A share has one cluster.
    HEDDLE_ASSIGN(OfficeProcess office,
                  OfficeProcess::Start(desk, board, *jobs_[0]->both.loaded.cluster, options));
    stage.office.emplace(std::move(office));
    return stage;
  }

  // What is nobody's job: the office, and a signal to stop.
  static void LookAround(Stage& stage) {
    if (FirstStop() != 0) stage.board.AskAllToStop();
    if (!stage.office) return;
    constexpr const char* kOffice = "the process that gives out the network";
    const std::string who = fmt::format("{} ({})", kOffice, stage.office->pid());
    if (!stage.office->Lives()) return stage.board.MarkAllDead(std::string(kOffice) + " has ended");
    if (stage.office_beats.IsSilent(stage.desk->beats(), RealClock().Now())) {
      stage.board.MarkAllDead(who + " does not answer: it is stopped or hangs");
    }
  }

  Status Join(Supervisor& supervisor, Stage& stage, const ShareJob& job) {
    HEDDLE_ASSIGN(const int32_t number, stage.board.AddJob(EntryOf(job, stage.phase)));
    const ShareHosts* hosts = hosts_ && hosts_->links.made() ? &*hosts_ : nullptr;
    const ShareRun run{config_, job, stage.phase, stage.board, number, stage.desk, hosts};
    return supervisor.Start({job.config.name, number, [run] { return LeadShareJob(run); }});
  }

  Result<JobRun> RunOf(const ShareJob& job, const Stage& stage, const JobOutcome& outcome) const {
    JobRun run{outcome, {}};
    if (outcome.well) {
      HEDDLE_ASSIGN(run.ranks,
                    ReadNotes({config_, job, stage.phase, stage.board, outcome.number, {}}));
      // It was done with its last step; its processes took their time to end.
      int64_t last = 0;
      for (const RankNotes& rank : run.ranks) {
        if (!rank.step_ends.empty()) last = std::max(last, rank.step_ends.back());
      }
      if (last > 0) run.outcome.ended = last;
    }
    return run;
  }

  std::vector<std::vector<int32_t>> Groups() const {
    if (!config_.groups.empty()) return config_.groups;
    std::vector<int32_t> all(config_.jobs.size());
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }

  // Group after group; by job of the config, and as if one had begun where the last one ended.
  Result<std::vector<JobRun>> RunGroups() {
    std::vector<JobRun> runs(config_.jobs.size());
    int64_t end = 1;
    for (const std::vector<int32_t>& group : Groups()) {
      std::vector<const ShareJob*> jobs;
      for (const int32_t k : group) jobs.push_back(jobs_[static_cast<size_t>(k)].get());
      HEDDLE_ASSIGN(std::vector<JobRun> ran,
                    RunShared(jobs, {"shared", config_.manner, Ordered(group), dilation_, 0}));
      int64_t start = INT64_MAX, last = end;
      for (const JobRun& run : ran) {
        if (run.outcome.began > 0) start = std::min(start, run.outcome.began);
      }
      for (size_t k = 0; k < group.size(); ++k) {
        JobOutcome& outcome = ran[k].outcome;
        if (outcome.began > 0) {
          outcome.began += end - start;
          outcome.ended += end - start;
          last = std::max(last, outcome.ended);
        }
        runs[static_cast<size_t>(group[k])] = std::move(ran[k]);
      }
      end = last;
    }
    return runs;
  }

  // Each job alone, one after the other. All must end well.
  Result<std::vector<JobRun>> RunAlone(const SharePhase& phase) {
    std::vector<JobRun> runs;
    for (const JobPtr& job : jobs_) {
      Say("{}: {} by itself\n", phase.name, job->config.name);
      HEDDLE_ASSIGN(Stage stage, SetUp(phase, TurnOrder::kRotation));
      Supervisor::Options options;
      options.silence = config_.Silence();
      options.newcomers = [&] {
        LookAround(stage);
        return false;
      };
      Supervisor supervisor(stage.board, options);
      HEDDLE_RETURN_IF_ERROR(Join(supervisor, stage, *job));
      const std::vector<JobOutcome> outcomes = supervisor.Watch();
      if (FirstStop() != 0) return Interrupted();
      if (!outcomes[0].well) {
        return Error{ErrorKind::kRunFailed, "job " + job->config.name,
                     "failed by itself: " + outcomes[0].why, ""};
      }
      HEDDLE_ASSIGN(JobRun run, RunOf(*job, stage, outcomes[0]));
      runs.push_back(std::move(run));
    }
    return runs;
  }

  Result<std::vector<JobRun>> RunShared(const std::vector<const ShareJob*>& jobs,
                                        const SharePhase& phase) {
    const TurnOrder order = phase.ordered ? config_.order : TurnOrder::kArrival;
    Say("{}: {} jobs on {} devices, {}\n", phase.name, jobs.size(), devices_.names.size(),
        phase.manner == ShareManner::kTurns ? fmt::format("in turns ({})", NameOf(order))
                                            : std::string(NameOf(phase.manner)));
    HEDDLE_ASSIGN(Stage stage, SetUp(phase, order));
    HEDDLE_RETURN_IF_ERROR(OpenMailbox(config_.directory));
    Supervisor* running = nullptr;
    Supervisor::Options options;
    options.silence = config_.Silence();
    options.newcomers = [&] {
      TakeNewcomers(*running, stage);
      LookAround(stage);
      return false;
    };
    options.ended = [&](const JobOutcome& outcome) { Tell(stage.board, outcome); };
    Supervisor supervisor(stage.board, options);
    running = &supervisor;
    for (const ShareJob* job : jobs) HEDDLE_RETURN_IF_ERROR(Join(supervisor, stage, *job));
    const std::vector<JobOutcome> outcomes = supervisor.Watch();
    CloseMailbox(config_.directory);
    if (FirstStop() != 0) return Interrupted();
    std::vector<JobRun> runs;
    for (size_t k = 0; k < jobs.size(); ++k) {  // those that came later have been told
      HEDDLE_ASSIGN(JobRun run, RunOf(*jobs[k], stage, outcomes[k]));
      runs.push_back(std::move(run));
    }
    return runs;
  }

  void Tell(const Board& board, const JobOutcome& outcome) const {
    if (outcome.well && FirstStop() != 0) {
      Say("{}: stopped\n", outcome.name);
    } else if (outcome.well) {
      // Without an order turns have no numbers.
      const int64_t first = board.first_turn(outcome.number);
      const bool ordered = board.order() != TurnOrder::kArrival;
      Say("{}: done{}\n", outcome.name,
          ordered ? fmt::format(", in the order since turn {}", first) : std::string());
    } else {
      Say("{}: failed: {}\n", outcome.name, outcome.why);
    }
    const auto came_later = [&](const JobPtr& job) { return job->config.name == outcome.name; };
    const auto first = jobs_.begin() + static_cast<std::ptrdiff_t>(config_.jobs.size());
    if (std::any_of(first, jobs_.end(), came_later)) (void)Answer(config_.directory, outcome).ok();
  }

  // Jobs that ask to join. One that cannot is told why; those that run do not notice.
  void TakeNewcomers(Supervisor& supervisor, Stage& stage) {
    for (const Mail& mail : TakeMail(config_.directory)) {
      const Status joined = JoinLater(supervisor, stage, mail);
      if (joined.ok()) {
        Say("{}: joins\n", mail.name);
      } else {
        (void)Answer(config_.directory, {mail.name, 0, false, joined.error().ToString(), 0, 0})
            .ok();
      }
    }
  }

  Status JoinLater(Supervisor& supervisor, Stage& stage, const Mail& mail) {
    if (!mail.job.ok()) return mail.job.error();
    if (mail.job.value().name != mail.name) {
      return BadInput("job " + mail.name, "its letter has another name", "they must be the same");
    }
    const auto same = [&](const JobPtr& job) { return job->config.name == mail.name; };
    if (std::any_of(jobs_.begin(), jobs_.end(), same)) {
      return BadInput("job " + mail.name, "the share has a job of this name",
                      "choose another name");
    }
    HEDDLE_ASSIGN(JobPtr job, LoadShareJob(mail.job.value(), devices_, false));
    if (stage.phase.ordered && !job->whole_steps) {
      return BadInput("job " + mail.name,
                      "it exchanges in the middle of a step, and the jobs that run go in one order",
                      "plan it with --strategy dp");
    }
    jobs_.push_back(std::move(job));
    return Join(supervisor, stage, *jobs_.back());
  }

  // After some steps that were not paced: how much slower must time go, so that the real work of
  // all jobs fits into modelled time?
  Status ChooseDilation() {
    dilation_ = config_.dilate;
    if (dilation_ > 0) return Ok();
    constexpr int64_t kSteps = 4;
    HEDDLE_ASSIGN(const std::vector<JobRun> runs,
                  RunAlone({"calibration", ShareManner::kAlone, true, 0, kSteps}));
    std::vector<CalibratedJob> jobs;
    for (size_t k = 0; k < runs.size(); ++k) {
      jobs.push_back(
          {jobs_[k]->step_seconds(), jobs_[k]->messages, jobs_[k]->repetitions, runs[k].ranks});
    }
    const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const Dilation chosen = DilationFor(jobs, {config_.serial, cores});
    dilation_ = chosen.factor;
    Say("time goes {:.3g} times slower, so that real work fits in: about {:.0f} s\n", dilation_,
        chosen.seconds);
    if (chosen.wanted > chosen.factor) {
      Say("others keep this machine busy, computing takes {:.2g} times as long as it should: "
          "--dilate {:.2g} would have room for that\n",
          chosen.load, chosen.wanted);
    }
    return Ok();
  }

  // Nodes as hosts, each with the rates of its link; before anything is run, since this machine or
  // the cluster may not permit it.
  Status FindHosts() {
    HEDDLE_RETURN_IF_ERROR(ShapedLinks::Permitted());
    for (const JobPtr& job : jobs_) {
      if (job->byte_scale == jobs_[0]->byte_scale) continue;
      return BadInput("job " + job->config.name,
                      "trains in a type of another size, against its plan's, than the others",
                      "shaped links have one rate for all; --emulate counts bytes of plans");
    }
    const Cluster& cluster = *jobs_[0]->both.loaded.cluster;
    std::vector<int> nodes;
    hosts_.emplace();
    for (const std::string& name : devices_.names) {
      const auto device = cluster.FindDevice(name);
      HEDDLE_CHECK(device.has_value());
      const int node = cluster.device(*device).node;
      const auto known = std::find(nodes.begin(), nodes.end(), node);
      hosts_->host_of.push_back(static_cast<int32_t>(known - nodes.begin()));
      if (known == nodes.end()) nodes.push_back(node);
    }
    HEDDLE_ASSIGN(host_rates_, HostRatesOf(cluster, nodes));
    return Ok();
  }

  // In the time that passes here.
  Status ShapeLinks() {
    const double slower = (dilation_ > 0 ? dilation_ : 1) * jobs_[0]->byte_scale / config_.shaped;
    for (HostRates& host : host_rates_) host = {host.up / slower, host.down / slower};
    HEDDLE_ASSIGN(hosts_->links, ShapedLinks::Make(host_rates_));
    Say("{} nodes are hosts of their own here, with shaped links between them\n",
        host_rates_.size());
    return Ok();
  }

  // Seconds of a step on devices and on the network: modelled, or as they were alone.
  std::vector<StepParts> Parts(const std::vector<JobRun>& alone) const {
    std::vector<StepParts> parts;
    if (config_.emulate) {
      for (size_t k = 0; k < config_.jobs.size(); ++k) parts.push_back(jobs_[k]->modelled);
      return parts;
    }
    for (const JobRun& run : alone) parts.push_back(MeasuredParts(run));
    return parts;
  }

  // What was trained is in the jobs' directories.
  Error Interrupted() const {
    return {ErrorKind::kRunFailed, config_.directory, "stopped by a signal", ""};
  }

  const ShareConfig& config_;
  std::optional<DirectoryClaim> claim_;
  ShareDevices devices_;
  std::vector<JobPtr> jobs_;  // those of the config, then those that came later
  double dilation_ = 0;
  std::optional<ShareHosts> hosts_;  // if links are shaped
  std::vector<HostRates> host_rates_;
  std::map<std::string, StepParts> alone_parts_;  // measured; modelled where emulated
};

}  // namespace

namespace {

// Where each job can be gone on with.
std::string WhereJobsAre(const ShareConfig& config) {
  std::string text;
  for (const ShareJobConfig& job : config.jobs) {
    const std::string run = fmt::format("{}/shared/{}", config.directory, job.name);
    const auto checkpoints = ListCheckpoints(run);
    text += checkpoints.empty() ? fmt::format("{}: nothing was saved\n", job.name)
                                : fmt::format("{}: {}, on by heddle run --resume {}\n", job.name,
                                              checkpoints.back(), run);
  }
  return text;
}

}  // namespace

Result<int> ShareCommand(const Words& words) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "share configuration"));
  HEDDLE_ASSIGN(const ShareConfig config,
                ShareConfigFromJson(JsonField(json, "share configuration")));
  HEDDLE_RETURN_IF_ERROR(RehearsedFault());
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  InstallTensorMemory();
  CatchInterrupts();
  const Result<ShareSummary> ran = Share(config).Run();
  if (FirstStop() != 0) {
    Say("stopped\n{}", WhereJobsAre(config));
    return CodeOf(FirstStop());
  }
  HEDDLE_ASSIGN(const ShareSummary summary, ran);
  const Json result = ShareSummaryToJson(summary);
  HEDDLE_RETURN_IF_ERROR(WriteFile(config.directory + "/result.json", JsonText(result, 2) + "\n"));
  HEDDLE_RETURN_IF_ERROR(as_json ? PrintJson(result) : Print(ShareSummaryText(summary)));
  if (const ShareSummary::Job* failed = summary.failed(); failed != nullptr) {
    return Error{ErrorKind::kRunFailed, "job " + failed->name, failed->why,
                 "the other jobs went on without it"};
  }
  if (config.serial && !summary.hashes_equal()) {
    return Error{ErrorKind::kParity, "share",
                 "a job's parameters are not those it has when it runs alone", ""};
  }
  return 0;
}

}  // namespace heddle
