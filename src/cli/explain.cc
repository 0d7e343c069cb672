// heddle explain: why this plan; what limits it; how far from the bounds; memory per device.

#include <memory>

#include "base/json_field.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "cli/spmd_exchanges.h"
#include "cli/spmd_text.h"
#include "plan/list_guarantee.h"
#include "report/device_table.h"
#include "report/summary.h"

namespace heddle {
namespace {

struct Flags : ProgramFlags {
  bool all = false;
};

// What limits it comes first, then the tables.
std::string TextOf(const LoadedPlan& loaded, const Simulation& simulation,
                   const Throughput& throughput, const TableStyle& style, bool all) {
  const Plan& plan = loaded.plan;
  const Cluster& cluster = *loaded.cluster;
  std::string text = VerdictText(plan, simulation, cluster, throughput, style) + "\n" +
                     DeviceTableText(plan, simulation, style, all) + "\n";
  if (plan.spmd) {
    text += SpmdExplanation(plan, loaded.planning->graph, cluster, style, all) + "\n";
  }
  return text + SearchText(plan.search, style, all);
}

Status Run(const Flags& flags, const Terminal& terminal) {
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
  loaded.plan.estimate.guaranteed_seconds = ListGuarantee(*loaded.planning, loaded.plan).value;
  HEDDLE_ASSIGN(const Throughput throughput,
                ThroughputOf(loaded.plan, loaded.planning->graph, *loaded.cluster,
                             evaluation.simulation.iteration));
  if (!terminal.json) {
    terminal.Print(TextOf(loaded, evaluation.simulation, throughput, terminal.style(), flags.all));
    return Ok();
  }
  Json json = PlanToJson(loaded.plan, loaded.planning->graph);
  json["schema"] = "heddle.explanation/1";
  json.erase("cluster");
  AddThroughput(throughput, json);
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
  auto flags = std::make_shared<Flags>();
  CLI::App* command = commands.Add("explain", "Say why a plan takes as long as it does",
                                   "heddle explain plan.json");
  command->add_option("plan", flags->file, "plan.json")->required();
  command->add_option("--profile", flags->profile, "The profile the plan was made with");
  command->add_flag("--all", flags->all, "Every device, layer, tensor and exchange: fold nothing");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
