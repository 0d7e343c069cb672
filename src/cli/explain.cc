// heddle explain: why this plan; what limits it; how far from the bounds; memory per device.

#include <memory>

#include "base/json_field.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "report/plan/explanation.h"
#include "report/plan/spmd_exchanges.h"
#include "report/summary.h"

namespace heddle {
namespace {

struct Flags : ProgramFlags {
  bool all = false;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(ProgramSource source, LoadProgramSource(flags));
  if (!source.is_plan) {
    return BadInput(flags.file, "is a Program, not a plan",
                    "explain wants a plan.json; heddle simulate takes both");
  }
  HEDDLE_ASSIGN(const Verdict verdict, CheckSource(source));
  if (!verdict.ok()) return ErrorOf(verdict, flags.file, "heddle check lists all findings");
  const LoadedPlan& loaded = source.loaded;
  HEDDLE_ASSIGN(const ExplainedPlan explained, ExplainPlan(*loaded.planning, loaded.plan));
  if (!terminal.json) {
    terminal.Print(ExplanationText(explained, *loaded.planning, terminal.style(), flags.all));
    return Ok();
  }
  Json json = PlanToJson(explained.plan, loaded.planning->graph);
  json["schema"] = "heddle.explanation/1";
  json.erase("cluster");
  AddThroughput(explained.throughput, json);
  json["bottleneck"] = BottleneckSentence(explained.simulation, *loaded.cluster);
  json["devices"] = DevicesJson(explained.simulation);
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
  const Command command = commands.Add("explain", "Say why a plan takes as long as it does",
                                       "heddle explain plan.json");
  command.AddOption("plan", flags->file, "plan.json").Required();
  command.AddOption("--profile", flags->profile, "The profile the plan was made with");
  command.AddFlag("--all", flags->all, "Every device, layer, tensor and exchange: fold nothing");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
