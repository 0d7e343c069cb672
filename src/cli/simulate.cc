// heddle simulate: give a plan's Program a clock; draw it, trace it.

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "cli/value_check.h"
#include "report/gantt.h"
#include "report/perfetto.h"
#include "report/summary.h"
#include "report/text_width.h"
#include "report/throughput.h"

namespace heddle {
namespace {

struct Flags {
  ProgramFlags program;
  std::string trace;
  bool network = false;
  int max_rows = 16;
};

// Of a plan: a Program as text does not say what of its work the model needs.
Result<std::optional<Throughput>> FindThroughput(const ProgramSource& source, Seconds iteration) {
  if (!source.is_plan) return std::optional<Throughput>();
  HEDDLE_ASSIGN(Throughput throughput, ThroughputOf(source.loaded.plan, *source.GetGraph(),
                                                    source.GetCluster(), iteration));
  return std::optional<Throughput>(throughput);
}

// Bounds, throughput and planning time come from the plan; a Program as text has none: null.
Json ToJson(const ProgramSource& source, const Verdict& verdict, const Simulation& simulation,
            const std::optional<Throughput>& throughput, double simulate_seconds) {
  Json json;
  json["schema"] = "heddle.simulation/1";
  json["strategy"] = source.program.strategy;
  json["other_cluster"] = MatchJson(source.match);
  json["iteration_seconds"] = simulation.iteration.value;
  json["makespan_seconds"] = simulation.makespan.value;
  Plan plan = source.loaded.plan;
  if (source.is_plan) {
    Evaluation evaluation;
    evaluation.program = source.program;
    evaluation.verdict = verdict;
    evaluation.simulation = simulation;
    FillEstimate(*source.loaded.planning, evaluation, plan);
  }
  const auto of_plan = [&](double value) { return source.is_plan ? Json(value) : Json(); };
  json["schedule_bound_seconds"] = of_plan(plan.estimate.schedule_bound_seconds);
  json["lower_bound_seconds"] = of_plan(plan.estimate.lower_bound_seconds);
  json["planning_seconds"] = of_plan(plan.search.planning_seconds);
  AddThroughput(throughput, json);
  json["devices_used"] = source.program.devices.size();
  json["steady"] = simulation.steady;
  json["repetitions"] = simulation.repetitions;
  json["instructions"] = simulation.instructions;
  json["events"] = simulation.timeline.events.size();
  json["simulate_seconds"] = simulate_seconds;
  json["devices"] = DevicesJson(simulation);
  json["memory"] = MemoryJson(source, verdict);
  return json;
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_RETURN_IF_ERROR(CheckWritable(flags.trace));
  HEDDLE_ASSIGN(ProgramSource source, LoadProgramSource(flags.program));
  HEDDLE_ASSIGN(const LinkModel links, LinksOf(flags.program, source));
  HEDDLE_ASSIGN(const Verdict verdict, CheckSource(source));
  if (!verdict.ok()) {
    return ErrorOf(verdict, flags.program.file, "heddle check lists all findings");
  }
  std::unique_ptr<OpCost> cost;
  if (source.GetGraph() != nullptr) {
    cost = std::make_unique<OpCost>(*source.GetGraph(), source.profile.get());
  }
  HEDDLE_ASSIGN(const SegmentSeconds seconds,
                CostSegments(source.program, source.GetCluster(), cost.get()));
  const auto start = std::chrono::steady_clock::now();
  terminal.Progress("simulating …");
  Result<Simulation> simulated =
      Simulate(source.program, source.GetCluster(), seconds, {links, true, 0});
  terminal.EndProgress();
  HEDDLE_ASSIGN(const Simulation simulation, std::move(simulated));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (!flags.trace.empty()) {
    HEDDLE_RETURN_IF_ERROR(WriteFile(flags.trace, PerfettoJson(simulation.timeline)));
  }
  HEDDLE_ASSIGN(const std::optional<Throughput> throughput,
                FindThroughput(source, simulation.iteration));
  if (terminal.json) {
    terminal.PrintJson(ToJson(source, verdict, simulation, throughput, spent.count()));
    return Ok();
  }
  GanttOptions gantt;
  gantt.width = terminal.width;
  gantt.colour = terminal.colour;
  gantt.show_network = flags.network;
  gantt.max_rows = flags.max_rows;
  // An asynchronous body is one microbatch: show enough of them to see the pattern.
  const bool small =
      source.program.microbatch_rows.size() == 1 && source.program.has_section(Section::kPrologue);
  gantt.repetitions = small ? std::min(simulation.repetitions, 6) : 1;
  if (!source.match.file.empty()) {
    terminal.Print(Wrapped(source.match.Text(), terminal.width) + "\n");
  }
  terminal.Print(DrawGantt(simulation.timeline, gantt));
  terminal.Print(fmt::format("\nlinks {} · iteration {} · first iteration {}\n", NameOf(links),
                             ToText(simulation.iteration), ToText(simulation.makespan)));
  if (throughput) terminal.Print(ThroughputText(*throughput) + "\n");
  terminal.Print(Wrapped(BottleneckSentence(simulation, source.GetCluster()), terminal.width));
  if (!flags.trace.empty()) {
    terminal.Print(fmt::format("Trace written to {}: open it in ui.perfetto.dev.\n", flags.trace));
  }
  return Ok();
}

}  // namespace

void AddSimulateCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add("simulate", "Simulate a plan and draw its timeline",
                                       "heddle simulate plan.json --trace trace.json");
  flags->program.AddTo(command, true);
  command.AddOption("--trace", flags->trace, "Write a Perfetto/Chrome trace to this file");
  command.AddFlag("--network", flags->network, "Draw each device's network beside its compute");
  command.AddOption("--rows", flags->max_rows, "Most devices to draw")
      .ShowDefault()
      .Check(Within(1, 100000));
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
