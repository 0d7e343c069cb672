// Lowering, checking and simulating large 1F1B Programs.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>

#include "plan/order/orders.h"
#include "plan/planning.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "simulate/simulator.h"

namespace heddle {
namespace {

// A pipeline of equal one-device stages over a GPT, one layer each at least.
struct Case {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Planning> planning;
  Plan plan;
  Program program;
  SegmentSeconds seconds;
};

Case MakeCase(int devices, int microbatches) {
  const std::string toml = fmt::format(
      "schema = \"heddle.cluster/1\"\n[device_type.gpu]\nflops = \"14 TFLOP/s\"\n"
      "memory = \"64 GiB\"\nmemory_bandwidth = \"900 GB/s\"\n"
      "[[node]]\nname = \"n\"\ncount = {}\ndevices = [{{ type = \"gpu\", count = 8 }}]\n"
      "link = {{ bandwidth = \"20 GB/s\", latency = \"2 us\" }}\n[[switch]]\nname = \"s\"\n"
      "[[link]]\nbetween = [\"n*\", \"s\"]\nbandwidth = \"100 Gbit/s\"\nlatency = \"5 us\"\n",
      devices / 8);
  Case c;
  c.cluster = std::make_unique<Cluster>(ParseClusterToml(toml, "bench").value());
  PlanRequest options;
  options.model = fmt::format("gpt?layers={}&hidden=1024&heads=16&seq=256", devices - 2);
  options.batch = microbatches;
  c.planning = std::make_unique<Planning>(Planning::Make(options, *c.cluster, nullptr).value());
  c.plan = c.planning->Blank("1f1b", "1f1b");
  c.plan.microbatches = microbatches;
  c.plan.pipelines.emplace_back();
  const auto orders = OneForwardOneBackward(devices, microbatches);
  for (int s = 0; s < devices; ++s) {
    StagePlan stage;
    stage.chunks = {{s, s}};
    stage.devices = {c.cluster->devices()[static_cast<size_t>(s)].name};
    stage.shares = {1};
    stage.order = orders[static_cast<size_t>(s)];
    c.plan.pipelines[0].stages.push_back(std::move(stage));
  }
  c.program = LowerPlan(c.plan, c.planning->graph).value();
  const OpCost cost = c.planning->cost();
  c.seconds = CostSegments(c.program, *c.cluster, &cost).value();
  return c;
}

void RunSimulation(benchmark::State& state, LinkModel links, bool keep_events) {
  const Case c = MakeCase(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  int64_t instructions = 0;
  for (auto _ : state) {
    const Simulation simulation =
        Simulate(c.program, *c.cluster, c.seconds, {links, keep_events, 0}).value();
    instructions += simulation.instructions;
  }
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
  state.counters["in the body"] = static_cast<double>(c.program.instruction_count());
}

// Target: 64 devices, 256 microbatches, two million instructions per second or more.
void Simulate1F1B(benchmark::State& state) { RunSimulation(state, LinkModel::kShared, false); }
BENCHMARK(Simulate1F1B)->Args({64, 256})->Args({8, 64})->Unit(benchmark::kMillisecond);

void SimulateWithTimeline(benchmark::State& state) {
  RunSimulation(state, LinkModel::kShared, true);
}
BENCHMARK(SimulateWithTimeline)->Args({64, 256})->Unit(benchmark::kMillisecond);

void SimulateExclusive(benchmark::State& state) {
  RunSimulation(state, LinkModel::kExclusive, false);
}
BENCHMARK(SimulateExclusive)->Args({64, 256})->Unit(benchmark::kMillisecond);

void SimulateChannels(benchmark::State& state) {
  RunSimulation(state, LinkModel::kChannels, false);
}
BENCHMARK(SimulateChannels)->Args({64, 256})->Unit(benchmark::kMillisecond);

void Check1F1B(benchmark::State& state) {
  const Case c = MakeCase(64, 256);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckProgram(c.program, {&c.planning->graph, {}}));
  }
}
BENCHMARK(Check1F1B)->Unit(benchmark::kMillisecond);

// Target: below 2. What checking takes, over what it would without the proof that sums are right.
void ProofOverCheck(benchmark::State& state) {
  const Case c = MakeCase(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const auto seconds = [&](bool prove) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(CheckProgram(c.program, {&c.planning->graph, {}, prove}));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double with = 0, without = 0;
  for (auto _ : state) {
    with += seconds(true);
    without += seconds(false);
  }
  state.counters["ratio"] = with / without;
}
BENCHMARK(ProofOverCheck)->Args({64, 256})->Args({8, 64})->Unit(benchmark::kMillisecond);

void Lower1F1B(benchmark::State& state) {
  const Case c = MakeCase(64, 256);
  for (auto _ : state) benchmark::DoNotOptimize(LowerPlan(c.plan, c.planning->graph));
}
BENCHMARK(Lower1F1B)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
