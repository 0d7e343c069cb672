// heddle plan: find the best plan of one strategy and write it down.

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "choose/planners.h"
#include "cli/command.h"
#include "cli/plan_text.h"

namespace heddle {
namespace {

struct Flags {
  PlanFlags plan;
  std::string strategy = "1f1b";
  std::string output;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const PlanInputs inputs, LoadInputs(flags.plan));
  terminal.Progress(fmt::format("planning {} …", flags.strategy));
  Result<Plan> planned = MakePlan(flags.strategy, *inputs.planning);
  terminal.EndProgress();
  HEDDLE_ASSIGN(const Plan plan, std::move(planned));
  const Json json = PlanToJson(plan);
  if (!flags.output.empty()) HEDDLE_RETURN_IF_ERROR(WriteFile(flags.output, json.dump(2) + "\n"));
  if (terminal.json) {
    terminal.PrintJson(json);
    return Ok();
  }
  terminal.Print(PlanText(plan, inputs.planning->graph, terminal.style()));
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
  CLI::App* command =
      commands.Add("plan", "Plan the training of a model on a cluster",
                   "heddle plan --model 'gpt?layers=24' --cluster examples/clusters/mixed4.toml "
                   "--strategy 1f1b -o plan.json");
  flags->plan.AddTo(command);
  std::string names;
  for (const Planner& planner : Planners()) {
    names += (names.empty() ? "" : ", ") + planner.name;
  }
  command->add_option("--strategy", flags->strategy, names)->capture_default_str();
  command->add_option("-o,--output", flags->output, "Write the plan to this file");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
