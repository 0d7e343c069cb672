// heddle plan: find the best plan of one strategy and write it down.

#include <fmt/format.h>

#include <memory>

#include "advise/adviser.h"
#include "advise/asked_plan.h"
#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "choose/planners.h"
#include "cli/command.h"
#include "cli/gradient_options.h"
#include "cli/value_check.h"
#include "report/plan/plan_text.h"

namespace heddle {
namespace {

struct Flags {
  PlanFlags plan{RequestSource::kPlan};
  double budget = 0;  // seconds; 0: not given
  std::string output;
};

// "pipeline would take 2.50 s, 21% less: --strategy pipeline", if a look at the others finds one.
std::string BetterText(const Planning& planning, const Plan& plan) {
  const std::optional<Plan> better = BetterPlan(planning, plan);
  if (!better) return "";
  const double seconds = better->seconds_per_batch();
  return fmt::format("better      {} would take {}, {:.0f}% less: --strategy {}\n",
                     better->strategy, ToText(Seconds{seconds}),
                     (1 - seconds / plan.seconds_per_batch()) * 100, better->strategy);
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const PlanRequest request, flags.plan.ToRequest());
  const bool any = request.strategy == "auto";
  if (!any) HEDDLE_RETURN_IF_ERROR(FindPlanner(request.strategy));
  const Deadline deadline = PlanningDeadline(request, flags.budget);
  HEDDLE_RETURN_IF_ERROR(CheckWritable(flags.output));
  HEDDLE_ASSIGN(const PlanInputs inputs, LoadInputs(flags.plan, deadline));
  Result<Plan> planned =
      MakeAskedPlan(*inputs.planning, [&](const std::string& what) { terminal.Progress(what); });
  terminal.EndProgress();
  HEDDLE_ASSIGN(const Plan plan, std::move(planned));
  HEDDLE_RETURN_IF_ERROR(RefuseUnusedGradientOptions(plan, inputs.planning->graph));
  HEDDLE_ASSIGN(const Throughput throughput,
                ThroughputOf(plan, inputs.planning->graph, *inputs.cluster,
                             Seconds{plan.estimate.iteration_seconds}));
  Json json = PlanToJson(plan, inputs.planning->graph);
  AddThroughput(throughput, json);
  if (!flags.output.empty())
    HEDDLE_RETURN_IF_ERROR(WriteFile(flags.output, JsonText(json, 2) + "\n"));
  if (terminal.json) {
    terminal.PrintJson(json);
    return Ok();
  }
  terminal.Print(PlanText(plan, inputs.planning->graph, throughput, terminal.style()));
  if (!any) terminal.Print(BetterText(*inputs.planning, plan));
  if (flags.output.empty()) {
    terminal.Print("\nKeep it with -o plan.json; then heddle explain plan.json shows why.\n");
  } else {
    terminal.Print(
        fmt::format("\nWritten to {}. heddle explain {} shows why.\n", flags.output, flags.output));
  }
  return Ok();
}

}  // namespace

void AddPlanCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command =
      commands.Add("plan", "Plan the training of a model on a cluster",
                   "heddle plan --model 'gpt?layers=24' --cluster examples/clusters/mixed4.toml "
                   "-o plan.json");
  flags->plan.AddTo(command);
  std::string names;
  for (const Planner& planner : Planners()) names += planner.name + ", ";
  command.Find("--strategy")
      ->About(names + "or auto, the best of those that train as one device would");
  command
      .AddOption("--budget", flags->budget,
                 "Seconds for the planning, after which the best so far is taken; 60 for auto "
                 "unless given, no limit for one strategy")
      .FromEnvironment("HEDDLE_BUDGET")
      .Check(Above(0));
  command.AddOption("-o,--output", flags->output, "Write the plan to this file");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
