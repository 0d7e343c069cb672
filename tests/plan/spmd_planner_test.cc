#include "plan/spmd/spmd_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "choose/spmd_strategy.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd/ratios.h"
#include "plan/spmd/step_list.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

Result<std::vector<SpmdCandidate>> Plans(const std::string& model, int64_t batch,
                                         const Cluster& cluster) {
  PlanRequest options;
  options.model = model;
  options.batch = batch;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  return PlanSpmd(planning);
}

int ShardedWeights(const SpmdPlan& plan) {
  int count = 0;
  for (const SpmdStorage& storage : plan.storage) {
    count += storage.layout[1].kind == ShardKind::kSharded ? 1 : 0;
  }
  return count;
}

// The second node is three times slower: it gets a quarter of the samples, or nearly.
TEST(SpmdPlanner, RatiosFollowTheDevices) {
  const Cluster cluster = ClusterOf({.nodes = 2, .devices = 1, .slower = 3});
  const auto found = Plans("mlp?layers=3&inputs=256&hidden=256&outputs=16", 8192, cluster);
  ASSERT_TRUE(found.ok());
  const std::vector<double>& ratios = found.value()[0].plan.ratios[1][kSampleRatios];
  EXPECT_NEAR(ratios[0], 0.75, 0.03);
  EXPECT_NEAR(ratios[1], 0.25, 0.03);
}

TEST(SpmdPlanner, FittedRatiosAreFasterThanEvenOnes) {
  const Cluster cluster = ClusterOf({.nodes = 3, .devices = 1, .slower = 2});
  const Graph graph =
      BuildModel("mlp?layers=3&inputs=256&hidden=256&outputs=16", {.batch = 8192}).value();
  const OpCost cost(graph, nullptr);
  SpmdMesh mesh = FlatMesh(cluster);
  double even = 0;
  for (int round = 0; round < 2; ++round) {
    SpmdProblem problem(cost, cluster, mesh);
    const SpmdPlan plan = StepsOf(problem, SearchFolded(problem).choices);
    const SpmdEstimate estimate = EstimateOf(problem, plan);
    if (round == 1) {
      EXPECT_LT(estimate.stage_seconds, 0.7 * even);
      break;
    }
    even = estimate.stage_seconds;
    const auto ratios = FitRatios(problem, plan, estimate, 1);
    ASSERT_TRUE(ratios.ok());
    mesh.ratios[1] = ratios.value();
    // Speeds are 4 : 2 : 1.
    EXPECT_NEAR(mesh.ratios[1][kSampleRatios][0], 4.0 / 7, 0.05);
    EXPECT_NEAR(mesh.ratios[1][kSampleRatios][2], 1.0 / 7, 0.05);
  }
}

// 37 million weights, 16 bytes each with gradient and Adam: 590 MB, which no device has.
TEST(SpmdPlanner, StoresPartsWhenMemoryIsShort) {
  const std::string model = "mlp?layers=4&inputs=3072&hidden=3072&outputs=3072";
  ClusterNumbers numbers = {.nodes = 1, .devices = 4, .memory = 16e9};
  const auto ample = Plans(model, 512, ClusterOf(numbers));
  ASSERT_TRUE(ample.ok());
  numbers.memory = 400e6;
  const Cluster short_cluster = ClusterOf(numbers);
  const auto tight = Plans(model, 512, short_cluster);
  ASSERT_TRUE(tight.ok()) << tight.error().ToString();
  const SpmdCandidate& plan = tight.value()[0];
  EXPECT_GE(ShardedWeights(plan.plan), 4);
  for (const Bytes peak : plan.estimate.peak) EXPECT_LE(peak.value, 400'000'000);
  EXPECT_GE(plan.estimate.stage_seconds, ample.value()[0].estimate.stage_seconds * (1 - 1e-9));
}

// Ten activations of 67 MB must be kept for backward, and all devices together have 480 MB.
TEST(SpmdPlanner, TakesTheBatchInPartsWhenActivationsDoNotFit) {
  const Cluster cluster = ClusterOf({.nodes = 1, .devices = 4, .memory = 120e6});
  PlanRequest options;
  options.model = "mlp?layers=6&inputs=256&hidden=256&outputs=16";
  options.batch = 65536;
  const auto plan = [&] {
    return PlanSpmdStrategy(Planning::Make(options, cluster, nullptr).value());
  };
  const Result<Plan> found = plan();
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  EXPECT_GT(found.value().microbatches, 1);
  for (const Estimate::Memory& memory : found.value().estimate.memory) {
    EXPECT_LE(memory.peak_bytes, 120'000'000);
  }
  ASSERT_GE(found.value().search.tried.size(), 2U);
  EXPECT_EQ(found.value().search.tried[0].iteration_seconds,
            found.value().estimate.iteration_seconds);
  options.microbatches = 16;
  EXPECT_EQ(plan().value().microbatches, 16);
  options.microbatches = 3;
  EXPECT_EQ(plan().value().microbatches, 4);
  options.microbatches.reset();
  options.batch = 65537;                          // a prime number
  EXPECT_FALSE(plan().value().spmd.has_value());  // data parallelism has parts of two sizes
}

// The whole batch fits only when the slow devices take as much as the fast ones, which are 2.5
// times faster.
TEST(SpmdPlanner, TakesTheBatchInPartsWhereThatIsFaster) {
  const Cluster cluster = ClusterOf(
      {.nodes = 2, .devices = 2, .flops = 1e10, .slower = 2.5, .inside = 4e9, .memory = 2.2e6});
  PlanRequest options;
  options.model = "mlp?layers=4&inputs=64&hidden=64&outputs=16";
  options.batch = 4096;
  options.optimizer = Optimizer::kSgd;
  const Plan best = PlanSpmdStrategy(Planning::Make(options, cluster, nullptr).value()).value();
  options.microbatches = 1;
  const Plan at_once = PlanSpmdStrategy(Planning::Make(options, cluster, nullptr).value()).value();
  EXPECT_GT(best.microbatches, 1);
  EXPECT_LT(best.estimate.iteration_seconds, 0.8 * at_once.estimate.iteration_seconds);
}

// A device of 40 TFLOP/s beside three of 2: with memory enough it takes 87% of the samples. All
// samples at once, what it keeps for backward is in proportion to its part, and memory decides.
TEST(SpmdPlanner, RatiosGiveWayToMemory) {
  double before = 1;
  for (const double gib : {16, 6, 4, 3}) {
    const Cluster cluster = ParseClusterToml(fmt::format(R"(schema = "heddle.cluster/1"
[device_type.big]
flops = "40 TFLOP/s"
memory = "{} GiB"
memory_bandwidth = "1500 GB/s"
[device_type.small]
flops = "2 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "300 GB/s"
[[node]]
name = "a"
devices = [{{ type = "big", count = 1 }}, {{ type = "small", count = 3 }}]
link = {{ bandwidth = "12 GB/s", latency = "1 us" }}
)",
                                                         gib),
                                             "test")
                                .value();
    const auto found = Plans("vgg19", 128, cluster);
    ASSERT_TRUE(found.ok()) << found.error().ToString();
    const SpmdCandidate& plan = found.value()[0];
    const double ratio = plan.plan.ratios[1][kSampleRatios][0];
    if (gib == 16) {
      EXPECT_NEAR(ratio, 40.0 / 46, 0.01);
    } else {
      EXPECT_LT(ratio, before - 0.05) << gib;
      const double fill = static_cast<double>(plan.estimate.peak[0].value) / (gib * (1 << 30));
      EXPECT_GT(fill, 0.95) << gib;
      EXPECT_LE(fill, 1) << gib;
    }
    before = ratio;
  }
}

TEST(SpmdPlanner, SaysWhatLacksWhenNothingFits) {
  const Cluster cluster = ClusterOf({.nodes = 1, .devices = 2, .memory = 20e6});
  const auto found = Plans("mlp?layers=4&inputs=3072&hidden=3072&outputs=3072", 64, cluster);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(found.error().what, testing::HasSubstr("n0:"));
  EXPECT_THAT(found.error().what, testing::HasSubstr("too much"));
}

}  // namespace
}  // namespace heddle
