#include "cli/share.h"

#include <memory>

#include "base/json_field.h"
#include "cli/share_run.h"
#include "cli/share_trace.h"
#include "cli/value_check.h"
#include "report/share/share_text.h"

namespace heddle {
namespace {

struct Flags {
  std::string jobs;
  bool baselines = false;
  std::string trace;
  int devices = 64;
  ShareRunFlags run;
};

Result<GroupBaselines> AllBaselines(const ShareInputs& inputs, const SharePlan& plan) {
  GroupBaselines all;
  for (const ShareGroup& group : plan.groups) {
    all.emplace_back();
    if (group.jobs.size() < 2) continue;
    HEDDLE_ASSIGN(all.back(), BaselinesOf(inputs, group));
  }
  return all;
}

// What is done with a finished plan: it is shown.
Status Show(const Flags& flags, const ShareInputs& inputs, const SharePlan& plan,
            const Terminal& terminal) {
  GroupBaselines baselines;
  if (flags.baselines) {
    HEDDLE_ASSIGN(baselines, AllBaselines(inputs, plan));
  }
  if (terminal.json) {
    terminal.PrintJson(ShareJson(inputs, plan, baselines));
  } else {
    terminal.Print(ShareText(inputs, plan, baselines, terminal.style()));
  }
  return Ok();
}

Status Run(const Flags& flags, const Terminal& terminal) {
  if (flags.jobs.empty() == flags.trace.empty()) {
    return Usage("neither or both of a jobs file and --trace were given",
                 "heddle share jobs.toml, or heddle share --trace jobs.csv --devices 64");
  }
  if (!flags.trace.empty()) return ShareTrace(flags.trace, flags.devices, terminal);
  HEDDLE_ASSIGN(JobsFile file, LoadJobs(flags.jobs));
  terminal.Progress("planning …");
  Result<ShareInputs> loaded = LoadShareInputs(std::move(file));
  terminal.EndProgress();
  HEDDLE_ASSIGN(const ShareInputs inputs, std::move(loaded));
  if (!flags.run.attach.empty()) return AttachToShare(inputs, flags.run, terminal);
  HEDDLE_ASSIGN(const SharePlan plan, MakeSharePlan(inputs));
  if (flags.run.run) return RunShare(inputs, plan, flags.run, terminal);
  return Show(flags, inputs, plan, terminal);
}

}  // namespace

void AddShareCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add("share", "Let several jobs take turns on the same devices",
                                       "heddle share examples/09-share.toml");
  command.AddOption("jobs", flags->jobs, "The jobs' TOML file (see docs/share.md)");
  command.AddFlag("--baselines", flags->baselines,
                  "Simulate what else could be done with the jobs that share");
  command.AddOption("--trace", flags->trace,
                    "Instead: schedule a stream of jobs, one line of this CSV file each");
  command.AddOption("--devices", flags->devices, "Equal devices that the stream runs on")
      .ShowDefault()
      .Check(Within(1, 1 << 20));
  AddShareRunFlags(command, flags->run);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
