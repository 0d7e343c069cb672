// heddle demo: plan, check and simulate a GPT on a mixed cluster; then run a small one, emulated.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "choose/planners.h"
#include "cli/command.h"
#include "cli/worker_process.h"
#include "report/gantt.h"
#include "report/plan/plan_text.h"
#include "report/summary.h"
#include "run/run_config.h"

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

// The plans of all strategies that fit, the fastest first.
Result<std::vector<Plan>> PlansByTime(const Planning& planning) {
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
    return a.seconds_per_batch() < b.seconds_per_batch();
  });
  return plans;
}

const Plan& FastestAsOneDevice(const std::vector<Plan>& plans) {
  const auto found = std::find_if(plans.begin(), plans.end(),
                                  [](const Plan& plan) { return plan.trains_as_one_device(); });
  return found == plans.end() ? plans.front() : *found;
}

// What a worker said of an emulated run of a plan.
Result<Json> RunEmulated(const Plan& plan, const Graph& graph, const std::string& folder) {
  const std::string path = folder + "/" + plan.strategy + ".json";
  HEDDLE_RETURN_IF_ERROR(WriteFile(path, JsonText(PlanToJson(plan, graph), 2)));
  RunConfig config;
  config.plan = path;
  config.steps = 13;
  config.validation = 0;
  config.emulate = true;
  config.directory = folder + "/" + plan.strategy;
  HEDDLE_ASSIGN(const std::string request, WorkerRequest(RunConfigToJson(config)));
  HEDDLE_ASSIGN(const std::string output, OutputOfWorker({"run", request, "--json"}));
  return ParseJson(output, "heddle run");
}

// A small GPT under the fastest plan and under even data parallelism, for real but slowed down.
Status RunSmall(const Cluster& cluster, const Terminal& terminal) {
  PlanRequest request;
  request.model = "tiny-gpt?layers=6";
  request.batch = 32;
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(request, cluster, nullptr));
  HEDDLE_ASSIGN(const std::vector<Plan> plans, PlansByTime(planning));
  const Plan& best = FastestAsOneDevice(plans);
  HEDDLE_ASSIGN(const Plan even, MakePlan("dp", planning));
  std::string folder = std::filesystem::temp_directory_path() / "heddle-demo-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return BadInput(folder, "cannot be made");
  terminal.Print(
      "\nThe same for a small GPT, now with real tensors: four devices as threads, paced\n"
      "to the cluster's compute and links, all slowed down alike so that this machine\n"
      "can keep up.\n\n");
  TextTable table({{"strategy"},
                   {"simulated", Align::kRight},
                   {"emulated", Align::kRight},
                   {"apart", Align::kRight},
                   {"slowed", Align::kRight},
                   {"late", Align::kRight},
                   {"loss", Align::kRight}});
  for (const Plan* plan : {&best, &even}) {
    HEDDLE_ASSIGN(const Json run, RunEmulated(*plan, planning.graph, folder));
    const double predicted = run["predicted_iteration_seconds"];
    const double measured = run["measured_iteration_seconds"];
    table.AddRow({plan->strategy, ToText(Seconds{predicted}), ToText(Seconds{measured}),
                  fmt::format("{:+.1f}%", 100 * (measured / predicted - 1)),
                  fmt::format("{:.0f}x", run["dilation"].get<double>()),
                  fmt::format("{} of {}", run["missed_deadlines"].get<int64_t>(),
                              run["deadlines"].get<int64_t>()),
                  fmt::format("{:.4f}", run["loss"].back().get<double>())});
  }
  terminal.Print(table.Print(terminal.style()) + "\n");
  HEDDLE_ASSIGN(const std::string verified,
                OutputOfWorker({"verify", folder + "/" + best.strategy + ".json"}));
  terminal.Print(verified);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return Ok();
}

Status Run(bool only_plan, const Terminal& terminal) {
  HEDDLE_ASSIGN(const Cluster cluster, ParseClusterToml(kCluster, "the demo's cluster"));
  PlanRequest request;
  request.model = "gpt?layers=12&hidden=768&seq=256";
  request.batch = 64;
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(request, cluster, nullptr));
  HEDDLE_ASSIGN(const std::vector<Plan> plans, PlansByTime(planning));
  const Plan& best = FastestAsOneDevice(plans);
  HEDDLE_ASSIGN(const Evaluation evaluation, EvaluateFitting(planning, best, /*keep_events=*/true));
  HEDDLE_ASSIGN(const Throughput throughput,
                ThroughputOf(best, planning.graph, cluster, evaluation.simulation.iteration));
  if (terminal.json) {
    Json json = PlanToJson(best, planning.graph);
    AddThroughput(throughput, json);
    json["compared"] = Json::array();
    for (const Plan& plan : plans) {
      json["compared"].push_back(
          {{"strategy", plan.strategy}, {"iteration_seconds", plan.seconds_per_batch()}});
    }
    terminal.PrintJson(json);
    return Ok();
  }
  terminal.Print(fmt::format(
      "A GPT with {:.0f} M parameters on 2 V100 and 2 P100 behind a 10 Gbit/s link, batch {}.\n\n",
      static_cast<double>(planning.graph.parameter_count()) / 1e6, request.batch));
  TextTable table({{"strategy"}, {"iteration", Align::kRight}, {"samples/s", Align::kRight}});
  for (const Plan& plan : plans) {
    const double seconds = plan.seconds_per_batch();
    table.AddRow({plan.strategy, ToText(Seconds{seconds}),
                  RateText(static_cast<double>(request.batch) / seconds)},
                 &plan == &best ? Tone::kGood : Tone::kPlain);
  }
  terminal.Print(table.Print(terminal.style()) + "\nThe fastest that trains as one device would: ");
  terminal.Print(PlanText(best, planning.graph, throughput, terminal.style()) + "\n");
  terminal.Print(
      fmt::format("checked     every layer once per sample, no deadlock, {} instructions\n\n",
                  GroupDigits(evaluation.program.instruction_count())));
  GanttOptions gantt;
  gantt.width = terminal.width;
  gantt.colour = terminal.colour;
  gantt.show_network = true;
  terminal.Print(DrawGantt(evaluation.simulation.timeline, gantt) + "\n");
  terminal.Print(BottleneckSentence(evaluation.simulation, cluster) +
                 "\n\nThese times are simulated.\n");
  if (only_plan || !HasWorker()) return Ok();
  return RunSmall(cluster, terminal);
}

}  // namespace

void AddDemoCommand(Commands& commands) {
  auto only_plan = std::make_shared<bool>(false);
  const Command command = commands.Add(
      "demo", "Plan, check and simulate a GPT on a mixed cluster; run a small one, emulated",
      "heddle demo");
  command.AddFlag("--only-plan", *only_plan, "Run nothing");
  commands.OnRun(command,
                 [only_plan](const Terminal& terminal) { return Run(*only_plan, terminal); });
}

}  // namespace heddle
