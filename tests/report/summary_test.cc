#include "report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/device_table.h"

namespace heddle {
namespace {

// Nodes a (two devices) and b (one), joined by a wire of 1 GB/s each way.
Cluster SmallCluster() {
  return ParseClusterToml(R"(
schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 2 }]
link = { bandwidth = "10 GB/s", latency = "5 us" }
[[node]]
name = "b"
devices = [{ type = "gpu", count = 1 }]
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "20 us"
)",
                          "test.toml")
      .value();
}

constexpr int64_t kGiB = int64_t{1} << 30;

Plan SmallPlan() {
  Plan plan;
  plan.strategy = "pipeline";
  plan.order_name = "1f1b";
  plan.request.model = "gpt?layers=12";
  plan.request.batch = 32;
  plan.microbatches = 8;
  StagePlan first;
  first.chunks = {{0, 5}};
  first.devices = {"a:0", "a:1"};
  StagePlan second;
  second.chunks = {{6, 6}, {7, 11}};
  second.devices = {"b:0"};
  plan.pipelines = {{{first, second}}};
  plan.estimate.iteration_seconds = 0.041;
  plan.estimate.schedule_bound_seconds = 0.0382;
  plan.estimate.lower_bound_seconds = 0.030;
  plan.estimate.memory = {{"a:0", 4 * kGiB, 16 * kGiB}, {"b:0", 12 * kGiB, 16 * kGiB}};
  plan.search.planning_seconds = 1.25;
  plan.search.candidates = 420;
  plan.search.notes = {"stage partitions: exact", "orders: 1f1b and gpipe"};
  return plan;
}

DeviceUse UseOf(const std::string& device, double busy_ms, double idle_ms, int sent_mib,
                int received_mib) {
  DeviceUse use;
  use.device = device;
  use.busy = Seconds{busy_ms * 1e-3};
  use.idle = Seconds{idle_ms * 1e-3};
  use.sent = Bytes{int64_t{sent_mib} << 20};
  use.received = Bytes{int64_t{received_mib} << 20};
  return use;
}

Simulation SmallSimulation() {
  Simulation simulation;
  simulation.iteration = Seconds{0.041};
  simulation.makespan = Seconds{0.042};
  simulation.repetitions = 3;
  simulation.devices = {UseOf("a:0", 38, 3, 8, 4), UseOf("a:1", 30, 11, 8, 4),
                        UseOf("b:0", 20.5, 20.5, 8, 16)};
  return simulation;
}

WireId WireNamed(const Cluster& cluster, const std::string& name) {
  for (size_t w = 0; w < cluster.wires().size(); ++w) {
    if (cluster.wires()[w].name == name) return WireId{static_cast<int32_t>(w)};
  }
  ADD_FAILURE() << name;
  return {};
}

Throughput SmallThroughput() { return {14.4, 1840, 0.412, 0.412}; }

std::string Verdict(const Plan& plan, const Simulation& simulation, int width) {
  return VerdictText(plan, simulation, SmallCluster(), SmallThroughput(), {.width = width});
}

// What limits the plan, how far it is from the bounds and its memory come before any table.
TEST(SummaryTest, TheVerdict) {
  EXPECT_EQ(Verdict(SmallPlan(), SmallSimulation(), 80),
            R"(pipeline (1f1b): gpt?layers=12 on 3 of 3 devices, batch 32 in 8 microbatches,
  f32

The limit is the device a:0: it computes 38.0 ms of every 41.0 ms (93%); next is
  the device a:1 (73%).
An iteration takes 41.0 ms; no order of this partition can beat 38.2 ms (7%
  away); no plan of this family can beat 30.0 ms (37% away).
Memory is fullest on b:0: 12.0 GiB of 16.0 GiB (75%).
1,840 tokens/s per device (14.4 samples/s), MFU 41.2%.
)");
}

TEST(SummaryTest, TheDevicesAndTheSearch) {
  const Plan plan = SmallPlan();
  EXPECT_EQ(DeviceTableText(plan, SmallSimulation(), {.width = 80}, false),
            R"(device  stage  layers     busy  idle      sent  received  peak memory  capacity
──────  ─────  ──────  ───────  ────  ────────  ────────  ───────────  ────────
a:0         0     0-5  38.0 ms    7%  8.00 MiB  4.00 MiB     4.00 GiB  16.0 GiB
a:1         0     0-5  30.0 ms   27%  8.00 MiB  4.00 MiB            -         -
b:0         1  6,7-11  20.5 ms   50%  8.00 MiB  16.0 MiB     12.0 GiB  16.0 GiB
)");
  EXPECT_EQ(SearchText(plan.search, {.width = 80}, false),
            "The search simulated 420 plans in 1.25 s.\n- stage partitions: exact\n"
            "- orders: 1f1b and gpipe\n");
}

// Instead of a stage, the part that a device has of what each ratio vector divides.
TEST(SummaryTest, SharesOfAnSpmdPlan) {
  Plan plan = SmallPlan();
  plan.pipelines.clear();
  plan.spmd.emplace();
  plan.spmd->mesh = {{"a:0", "a:1"}, {"b:0", "b:1"}};
  plan.spmd->ratios = {{{{0.6, 0.4}, {0.5, 0.5}}, {{0.75, 0.25}}}};
  const std::string text = DeviceTableText(plan, SmallSimulation(), {.width = 90}, false);
  EXPECT_THAT(text, testing::HasSubstr("device  share  share '1     busy"));
  EXPECT_THAT(text, testing::HasSubstr("a:0     0.450     0.500  38.0 ms"));
  EXPECT_THAT(text, testing::HasSubstr("b:0     0.300     0.500  20.5 ms"));
}

TEST(SummaryTest, AWireCanBeTheLimit) {
  const Cluster cluster = SmallCluster();
  Simulation simulation = SmallSimulation();
  simulation.wires = {{WireNamed(cluster, "a->b"), 40e6}, {WireNamed(cluster, "b->a"), 10e6}};
  EXPECT_EQ(BottleneckSentence(simulation, cluster),
            "The limit is the wire a->b: 38.1 MiB at 1.00 GB/s take 40.0 ms of every 41.0 ms "
            "(98%); next is the device a:0 (93%).");
  simulation.wires[0].bytes = 60e6;
  EXPECT_EQ(BottleneckSentence(simulation, cluster),
            "The limit is the wire a->b: 57.2 MiB at 1.00 GB/s take 60.0 ms of every 41.0 ms "
            "(146%); next is the device a:0 (93%). The link model of this simulation lets "
            "transfers share a wire without delay.");
}

TEST(SummaryTest, OrNothingIsTheLimit) {
  Simulation simulation = SmallSimulation();
  simulation.iteration = Seconds{0.1};
  EXPECT_EQ(BottleneckSentence(simulation, SmallCluster()),
            "No device and no wire is in use for half of the time: latency and waiting for each "
            "other are the limit. The most used is the device a:0: it computes 38.0 ms of every "
            "100 ms (38%); next is the device a:1 (30%).");
  EXPECT_EQ(BottleneckSentence(Simulation{}, SmallCluster()), "Nothing takes time.");
}

TEST(SummaryTest, BoundsThatAreReachedUnknownOrWrong) {
  Plan plan;
  Estimate& estimate = plan.estimate;
  EXPECT_EQ(BoundsSentence(plan, Seconds{0.041}), "An iteration takes 41.0 ms.");
  estimate.schedule_bound_seconds = 0.041;
  estimate.lower_bound_seconds = 0.0408;
  EXPECT_EQ(BoundsSentence(plan, Seconds{0.041}),
            "An iteration takes 41.0 ms; no order of this partition can beat 41.0 ms (reached); no "
            "plan of this family can beat 40.8 ms (less than 1% away).");
  plan.microbatches = 16;
  plan.request.microbatches = plan.microbatches;
  EXPECT_THAT(BoundsSentence(plan, Seconds{0.041}),
              testing::HasSubstr("no plan of this family with 16 microbatches can beat 40.8 ms"));
  estimate.iteration_seconds = 0.05;
  estimate.schedule_bound_seconds = 0.05;
  estimate.lower_bound_seconds = 0;
  EXPECT_EQ(
      BoundsSentence(plan, Seconds{0.04}),
      "An iteration takes 40.0 ms (the plan says 50.0 ms); no order of this partition can beat "
      "50.0 ms (and yet this is 20% faster).");
}

TEST(SummaryTest, WhatWasGuaranteedAndWhatIsProven) {
  Estimate estimate;
  EXPECT_EQ(GuaranteeSentence(estimate), "");
  estimate.guaranteed_seconds = 0.05;
  EXPECT_EQ(
      GuaranteeSentence(estimate),
      "Guaranteed before the search: the list order of this partition takes at most 50.0 ms.");
  estimate.schedule_bound_seconds = 0.04;
  EXPECT_EQ(GuaranteeSentence(estimate),
            "Guaranteed before the search: the list order of this partition takes at most 50.0 ms; "
            "proven after it: no order takes less than 40.0 ms.");
}

TEST(SummaryTest, MemoryThatDoesNotSuffice) {
  Plan plan = SmallPlan();
  EXPECT_EQ(MemorySentence(Estimate{}), "");
  plan.estimate.memory[0].peak_bytes = 20 * kGiB;
  EXPECT_EQ(MemorySentence(plan.estimate),
            "Memory does not suffice on a:0: 20.0 GiB of 16.0 GiB (125%).");
  const std::string text = DeviceTableText(plan, SmallSimulation(), {.colour = true}, false);
  EXPECT_NE(text.find("\x1b[31ma:0 "), std::string::npos) << text;
}

TEST(SummaryTest, SeveralPipelinesAndAPeriodThatIsNotSteady) {
  Plan plan = SmallPlan();
  PipelinePlan other = plan.pipelines[0];
  plan.pipelines[0].stages[0].devices = {"a:0"};
  other.stages[0].devices = {"a:1"};
  other.stages[1].devices = {};
  plan.pipelines.push_back(other);
  plan.microbatches = 1;
  plan.order_name = plan.strategy;
  plan.search = {};
  Simulation simulation = SmallSimulation();
  simulation.steady = false;
  simulation.repetitions = 48;
  const std::string text = Verdict(plan, simulation, 0) +
                           DeviceTableText(plan, simulation, {}, false) +
                           SearchText(plan.search, {}, false);
  for (const std::string part :
       {"pipeline: gpt?layers=12 on 3 of 3 devices, batch 32, f32\n", "\na:0       0.0     0-5  ",
        "\na:1       1.0     0-5  ", "\nb:0       0.1  6,7-11  ",
        "\nThe period was still changing after 48 repetitions.\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
  EXPECT_EQ(text.find("The search"), std::string::npos);
}

}  // namespace
}  // namespace heddle
