// heddle explain: why this plan; what limits it; how far from the bounds; memory per device.

#include <memory>

#include "base/json_field.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "cli/spmd_exchanges.h"
#include "cli/spmd_text.h"
#include "report/summary.h"

namespace heddle {
namespace {

Status Run(const ProgramFlags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(ProgramSource source, LoadProgramSource(flags));
  if (!source.is_plan) {
    return BadInput(flags.file, "is a Program, not a plan",
                    "explain wants a plan.json; heddle simulate takes both");
  }
  HEDDLE_ASSIGN(const Verdict verdict, CheckSource(source));
  if (!verdict.ok()) return ErrorOf(verdict, flags.file, "heddle check lists all findings");
  LoadedPlan& loaded = source.loaded;
  HEDDLE_ASSIGN(const Evaluation evaluation,
                EvaluateFitting(*loaded.planning, loaded.plan, /*keep_events=*/false));
  FillEstimate(*loaded.planning, evaluation, loaded.plan);
  if (!terminal.json) {
    if (loaded.plan.spmd) {
      const Graph& graph = loaded.planning->graph;
      terminal.Print(SpmdExplanation(loaded.plan, graph, *loaded.cluster, terminal.style()) + "\n");
    }
    terminal.Print(
        ExplainText(loaded.plan, evaluation.simulation, *loaded.cluster, terminal.style()));
    return Ok();
  }
  Json json = PlanToJson(loaded.plan);
  json["schema"] = "heddle.explanation/1";
  json.erase("cluster");
  json["bottleneck"] = BottleneckSentence(evaluation.simulation, *loaded.cluster);
  json["devices"] = DevicesJson(evaluation.simulation);
  if (loaded.plan.spmd) {
    const Graph& graph = loaded.planning->graph;
    json["exchanges"] = ExchangesJson(ExchangesOf(loaded.plan, graph, *loaded.cluster), graph);
  }
  terminal.PrintJson(json);
  return Ok();
}

}  // namespace

void AddExplainCommand(Commands& commands) {
  auto flags = std::make_shared<ProgramFlags>();
  CLI::App* command = commands.Add("explain", "Say why a plan takes as long as it does",
                                   "heddle explain plan.json");
  command->add_option("plan", flags->file, "plan.json")->required();
  command->add_option("--profile", flags->profile, "The profile the plan was made with");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
