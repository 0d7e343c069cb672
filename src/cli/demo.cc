// heddle demo: plan, check and simulate a small GPT on a mixed cluster.

#include <fmt/format.h>

#include <algorithm>

#include "choose/planners.h"
#include "cli/command.h"
#include "cli/plan_text.h"
#include "report/gantt.h"
#include "report/summary.h"

namespace heddle {
namespace {

// examples/clusters/mixed4.toml, so that the demo needs no file (a test keeps them equal).
constexpr char kCluster[] =
    R"toml(# Two nodes with different devices and one slow link between them: the example of the design.
# Shows device types, a link inside each node, and a link between two node ports.
schema = "heddle.cluster/1"

[device_type.v100]
flops = "14 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"

[device_type.p100]
flops = "7.8 TFLOP/s"
memory = "12 GiB"
memory_bandwidth = "550 GB/s"

[[node]]
name = "a"
devices = [{ type = "v100", count = 2 }]
link = { bandwidth = "20 GB/s", latency = "2 us" }

[[node]]
name = "b"
devices = [{ type = "p100", count = 2 }]
link = { bandwidth = "10 GB/s", latency = "5 us" }

[[link]]
between = ["a", "b"]
bandwidth = "10 Gbit/s"
latency = "20 us"
)toml";

Status Run(const Terminal& terminal) {
  HEDDLE_ASSIGN(const Cluster cluster, ParseClusterToml(kCluster, "the demo's cluster"));
  PlanOptions options;
  options.model = "gpt?layers=12&hidden=768&seq=256";
  options.batch = 64;
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(options, cluster, nullptr));
  std::vector<Plan> plans;
  for (const Planner& planner : Planners()) {
    Result<Plan> plan = MakePlan(planner.name, planning);
    if (plan.ok()) {
      plans.push_back(std::move(plan).value());
    } else if (plan.error().kind != ErrorKind::kInfeasible) {
      return plan.error();
    }
  }
  if (plans.empty()) return Infeasible("demo", "no strategy fits");
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.estimate.iteration_seconds < b.estimate.iteration_seconds;
  });
  const Plan& best = plans.front();
  HEDDLE_ASSIGN(const Evaluation evaluation, EvaluateFitting(planning, best, /*keep_events=*/true));
  if (terminal.json) {
    Json json = PlanToJson(best);
    json["compared"] = Json::array();
    for (const Plan& plan : plans) {
      json["compared"].push_back(
          {{"strategy", plan.strategy}, {"iteration_seconds", plan.estimate.iteration_seconds}});
    }
    terminal.PrintJson(json);
    return Ok();
  }
  terminal.Print(fmt::format(
      "A GPT with {:.0f} M parameters on 2 V100 and 2 P100 behind a 10 Gbit/s link, batch {}.\n\n",
      static_cast<double>(planning.graph.parameter_count()) / 1e6, options.batch));
  TextTable table({{"strategy"}, {"iteration", Align::kRight}, {"samples/s", Align::kRight}});
  for (const Plan& plan : plans) {
    const double seconds = plan.estimate.iteration_seconds;
    table.AddRow({plan.strategy, ToText(Seconds{seconds}),
                  fmt::format("{:.0f}", static_cast<double>(options.batch) / seconds)},
                 &plan == &best ? Tone::kGood : Tone::kPlain);
  }
  terminal.Print(table.Print(terminal.style()) + "\nThe fastest: ");
  terminal.Print(PlanText(best, planning.graph, terminal.style()) + "\n");
  terminal.Print(
      fmt::format("checked     every layer once per sample, no deadlock, {} instructions\n\n",
                  evaluation.program.instruction_count()));
  GanttOptions gantt;
  gantt.width = terminal.width;
  gantt.colour = terminal.colour;
  gantt.show_network = true;
  terminal.Print(DrawGantt(evaluation.simulation.timeline, gantt) + "\n");
  terminal.Print(BottleneckSentence(evaluation.simulation, cluster) +
                 "\n\nAll times are simulated.\n");
  return Ok();
}

}  // namespace

void AddDemoCommand(Commands& commands) {
  CLI::App* command = commands.Add(
      "demo", "Plan, check and simulate a small GPT on a mixed cluster", "heddle demo");
  commands.OnRun(command, &Run);
}

}  // namespace heddle
