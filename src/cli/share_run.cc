#include "cli/share_run.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <numeric>

#include "base/directory_claim.h"
#include "base/file.h"
#include "base/json_text.h"
#include "cli/value_check.h"
#include "cli/worker_process.h"
#include "run/share/share_config.h"
#include "run/share/share_mail.h"
#include "run/store/run_directory.h"

namespace heddle {
namespace {

// The worker reads a job's plan from a file: one that was made here is kept beside the run.
Result<ShareJobConfig> ConfigOf(const PlannedJob& job, const std::string& profile,
                                const std::string& directory, const std::string& dtype) {
  ShareJobConfig config;
  config.dtype = ParseChoice<DType>(dtype);
  config.name = job.spec.name;
  config.profile = profile;
  config.steps = job.spec.steps;
  config.weight = job.spec.weight;
  config.times = job.times;
  config.plan = fmt::format("{}/plans/{}.json", directory, job.spec.name);
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(directory + "/plans"));
  HEDDLE_RETURN_IF_ERROR(
      WriteFile(config.plan, JsonText(PlanToJson(job.plan, job.planning->graph), 2) + "\n"));
  return config;
}

// Those that run at the same time: the plan's, or all.
std::vector<std::vector<size_t>> GroupsOf(const ShareInputs& inputs, const SharePlan& plan,
                                          const ShareRunFlags& flags) {
  std::vector<std::vector<size_t>> groups;
  if (flags.one_group) {
    groups.emplace_back(inputs.jobs.size());
    std::iota(groups[0].begin(), groups[0].end(), size_t{0});
    return groups;
  }
  for (const ShareGroup& group : plan.groups) groups.push_back(group.jobs);
  return groups;
}

// What the simulator says of a step of each job among the others, where the run is of the devices
// and in the order that it knows.
std::vector<Seconds> PredictionFor(const ShareInputs& inputs, const std::vector<size_t>& group,
                                   const ShareRunFlags& flags) {
  const TurnOrder order = ParseChoice<TurnOrder>(flags.order).value_or(inputs.file.share.order);
  const bool modelled = flags.emulate || flags.shaped;
  if (!modelled || flags.together || order != inputs.file.share.order) return {};
  const Result<std::vector<Seconds>> steps = SimulatedSteps(inputs, group);
  return steps.ok() ? steps.value() : std::vector<Seconds>();
}

// A directory of its own: what is there already belongs to somebody.
Result<DirectoryClaim> ClaimNew(const std::string& directory) {
  namespace fs = std::filesystem;
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(directory));
  if (DirectoryClaim::IsTaken(directory)) return DirectoryClaim::Take(directory);
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    return BadInput(directory,
                    fmt::format("is not empty: there is {}", it->path().filename().string()),
                    "choose another --dir, or remove this one");
  }
  return DirectoryClaim::Take(directory);
}

Result<std::string> NewDirectory() {
  HEDDLE_ASSIGN(const RunDirectory made,
                RunDirectory::CreateNamed("runs", "share", std::time(nullptr)));
  return made.path();
}

}  // namespace

void AddShareRunFlags(const Command& command, ShareRunFlags& flags) {
  command.AddFlag("--run", flags.run,
                  "Run them here: each alone, then in turns; parameters must be the same");
  command.AddFlag("--emulate", flags.emulate,
                  "With --run: pace devices and network to the cluster of the file");
  command.AddFlag("--shaped", flags.shaped,
                  "With --run: pace devices, and exchange over shaped links between network "
                  "namespaces of this machine (root)");
  command
      .AddOption("--dilate", flags.dilate, "With --emulate or --shaped: how much slower time goes")
      .Check(AtLeast(0));
  command.AddFlag("--no-serial", flags.no_serial, "With --run: do not run each alone first");
  command.AddFlag("--together", flags.together,
                  "With --run: all at once, without turns, to compare with");
  command.AddFlag("--one-group", flags.one_group,
                  "With --run: all jobs at the same time, also those better left apart");
  command
      .AddOption("--order", flags.order,
                 "With --run: rotation or deficit, instead of the file's order")
      .Check(OneOf({"rotation", "deficit"}));
  command
      .AddOption("--dtype", flags.dtype,
                 "With --run: fp32 or fp64, to train in; needed for plans in bf16 or fp16")
      .Check(OneOf({"fp32", "fp64"}));
  command
      .AddOption("--silent-after", flags.silence,
                 "With --run: seconds without a sign of life after which a process has stopped")
      .Check(Above(0))
      .ShowDefault();
  command.AddOption("--dir", flags.directory, "Of the run; a new one in runs/ if not given");
  command.AddOption("--attach", flags.attach,
                    "This job of the file joins the share that runs in --dir");
}

Status RunShare(const ShareInputs& inputs, const SharePlan& plan, const ShareRunFlags& flags,
                const Terminal& terminal) {
  ShareConfig config;
  config.directory = flags.directory;
  if (config.directory.empty()) {
    HEDDLE_ASSIGN(config.directory, NewDirectory());
  }
  HEDDLE_ASSIGN(const DirectoryClaim claim, ClaimNew(config.directory));
  config.claim = claim.KeepOnExec();
  config.order = ParseChoice<TurnOrder>(flags.order).value_or(inputs.file.share.order);
  config.manner = flags.together ? ShareManner::kTogether : ShareManner::kTurns;
  config.switch_cost = inputs.file.share.switch_cost;
  config.serial = !flags.no_serial;
  config.emulate = flags.emulate || flags.shaped;
  config.shaped = flags.shaped ? 1 : 0;
  config.dilate = flags.dilate;
  config.silence = flags.silence;
  config.lease = inputs.file.share.lease.value;
  for (const std::vector<size_t>& group : GroupsOf(inputs, plan, flags)) {
    config.groups.emplace_back();
    const std::vector<Seconds> predicted = PredictionFor(inputs, group, flags);
    for (size_t place = 0; place < group.size(); ++place) {
      config.groups.back().push_back(static_cast<int32_t>(config.jobs.size()));
      HEDDLE_ASSIGN(ShareJobConfig job, ConfigOf(inputs.jobs[group[place]], inputs.file.profile,
                                                 config.directory, flags.dtype));
      if (place < predicted.size()) job.predicted = predicted[place];
      config.jobs.push_back(std::move(job));
    }
  }
  HEDDLE_ASSIGN(const std::string asked, WorkerRequest(ShareConfigToJson(config)));
  std::vector<std::string> words = {"share", asked};
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

Status AttachToShare(const ShareInputs& inputs, const ShareRunFlags& flags,
                     const Terminal& terminal) {
  for (const PlannedJob& job : inputs.jobs) {
    if (job.spec.name != flags.attach) continue;
    HEDDLE_RETURN_IF_ERROR(CanAttach(flags.directory, flags.attach));
    HEDDLE_ASSIGN(const ShareJobConfig config,
                  ConfigOf(job, inputs.file.profile, flags.directory, flags.dtype));
    HEDDLE_ASSIGN(const Json outcome, AttachJob(flags.directory, config));
    if (terminal.json) {
      terminal.PrintJson(outcome);
    } else {
      terminal.Print(fmt::format("{}: done after {}\n", job.spec.name,
                                 ToText(Seconds{outcome.value("seconds", 0.0)})));
    }
    return Ok();
  }
  return BadInput(inputs.file.file, fmt::format("has no job {}", flags.attach),
                  "--attach names one of its jobs");
}

}  // namespace heddle
