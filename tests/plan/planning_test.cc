#include "plan/planning.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/json_field.h"
#include "plan/cycle_bound.h"
#include "plan/family_bound.h"
#include "plan/order/orders.h"
#include "plan/pipeline/baselines.h"
#include "plan/pipeline/stage_partition.h"
#include "program/lower/lower.h"
#include "program/text/program_text.h"
#include "support/places.h"

namespace heddle {
namespace {

const Cluster& Mixed4() {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  return cluster;
}

Planning MakePlanning(const std::string& model, int64_t batch, const Cluster& cluster = Mixed4()) {
  PlanRequest options;
  options.model = model;
  options.batch = batch;
  return Planning::Make(options, cluster, nullptr).value();
}

using PlannerFunction = Result<Plan> (*)(const Planning&);
const std::vector<std::pair<std::string, PlannerFunction>> kPlanners = {
    {"dp", &PlanDataParallel},
    {"dp-proportional", &PlanDataParallelProportional},
    {"gpipe", &PlanGpipe},
    {"1f1b", &PlanOneForwardOneBackward},
    {"interleaved", &PlanInterleaved}};

TEST(PlanningTest, EveryPlannersPlanFitsAndIsNoFasterThanItsBounds) {
  for (const char* model : {"tiny-gpt?layers=8", "gpt?layers=6&seq=128", "mlp?layers=12"}) {
    const Planning planning = MakePlanning(model, 48);
    for (const auto& [name, planner] : kPlanners) {
      const Result<Plan> plan = planner(planning);
      ASSERT_TRUE(plan.ok()) << name << " " << model << ": " << plan.error().ToString();
      const Estimate& estimate = plan.value().estimate;
      EXPECT_GT(estimate.lower_bound_seconds, 0) << name;
      EXPECT_LE(estimate.lower_bound_seconds, estimate.schedule_bound_seconds) << name;
      EXPECT_LE(estimate.schedule_bound_seconds, estimate.iteration_seconds * (1 + 1e-9)) << name;
      for (const Estimate::Memory& memory : estimate.memory) {
        EXPECT_GT(memory.peak_bytes, 0);
        EXPECT_LE(memory.peak_bytes, memory.capacity_bytes);
      }
    }
  }
}

TEST(PlanningTest, PlansSurviveTheirJsonForm) {
  const Planning planning = MakePlanning("tiny-gpt?layers=8", 48);
  for (const auto& [name, planner] : kPlanners) {
    const Plan plan = planner(planning).value();
    const std::string text = PlanToJson(plan, planning.graph).dump();
    const Result<Plan> again = ParsePlan(text, "plan.json");
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(PlanToJson(again.value(), planning.graph).dump(), text) << name;
    EXPECT_EQ(PrintProgram(LowerPlan(again.value(), planning.graph).value()),
              PrintProgram(LowerPlan(plan, planning.graph).value()));
  }
}

TEST(PlanningTest, ProportionalSharesFollowSpeed) {
  const Planning planning = MakePlanning("gpt?layers=4", 100);
  const Plan plan = PlanDataParallelProportional(planning).value();
  const std::vector<double>& shares = plan.pipelines[0].stages[0].shares;
  EXPECT_EQ(shares[0], 1);
  EXPECT_NEAR(shares[2], 7.8 / 14, 0.05);  // P100 over V100, nearly all of it matrix products
}

TEST(PlanningTest, TooLittleMemoryIsInfeasibleAndNamesDeviceAndBytes) {
  const Planning planning = MakePlanning("gpt?layers=48&hidden=1600&heads=25", 64);
  const Result<Plan> plan = PlanDataParallel(planning);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible);
  EXPECT_NE(plan.error().what.find("a:0"), std::string::npos) << plan.error().what;
  EXPECT_NE(plan.error().what.find("too much"), std::string::npos);
}

TEST(PlanningTest, RecomputesWhereItMakesThePlanFit) {
  const Planning planning = MakePlanning("gpt?layers=24&hidden=1024&heads=16", 64);
  const Plan plan = PlanGpipe(planning).value();
  EXPECT_TRUE(plan.pipelines[0].stages[1].recompute);
}

TEST(PlanningTest, FewerSamplesThanDevicesIsSaidPlainly) {
  const Planning planning = MakePlanning("tiny-mlp", 3);
  const Result<Plan> plan = PlanDataParallel(planning);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().what.find("without a sample"), std::string::npos);
}

// Gradients of weights apart from those of inputs: they may overlap with other stages.
TEST(BoundsTest, HoldForSplitBackward) {
  for (const int64_t microbatches : {1, 2, 8}) {
    const Planning planning = MakePlanning("mlp?layers=8&hidden=2048&inputs=2048", 8);
    Plan plan = PlanOneForwardOneBackward(planning).value();
    plan.microbatches = microbatches;
    const auto orders = OneForwardOneBackward(4, static_cast<int>(microbatches));
    for (size_t s = 0; s < orders.size(); ++s) plan.pipelines[0].stages[s].order = orders[s];
    FillEstimate(planning, EvaluateFitting(planning, plan, false).value(), plan);
    const double whole_bound = plan.estimate.schedule_bound_seconds;
    for (size_t s = 0; s < plan.pipelines[0].stages.size(); ++s) {
      WorkOrder split;
      for (const WorkItem& item : orders[s]) {
        const bool backward = item.kind == WorkKind::kBackward;
        split.push_back({backward ? WorkKind::kInput : item.kind, item.chunk, item.microbatch});
      }
      for (int m = 0; m < microbatches; ++m) split.push_back({WorkKind::kWeight, 0, m});
      plan.pipelines[0].stages[s].order = split;
    }
    const Evaluation evaluation = EvaluateFitting(planning, plan, false).value();
    FillEstimate(planning, evaluation, plan);
    EXPECT_LE(plan.estimate.schedule_bound_seconds, plan.estimate.iteration_seconds * (1 + 1e-9));
    EXPECT_LE(plan.estimate.lower_bound_seconds, plan.estimate.iteration_seconds);
    // Splitting is an order of the same partition: the bound stated before must hold for it.
    EXPECT_LE(whole_bound, plan.estimate.iteration_seconds * (1 + 1e-9));
  }
}

// The partition against all ways to cut the chain.
RC_GTEST_PROP(StagePartitionTest, EqualsBruteForce, ()) {
  const Planning planning =
      MakePlanning("mlp?layers=" + std::to_string(*rc::gen::inRange(2, 8)) +
                       "&hidden=" + std::to_string(*rc::gen::inRange(16, 4096)) +
                       "&inputs=" + std::to_string(*rc::gen::inRange(1, 4096)),
                   *rc::gen::inRange<int64_t>(1, 512));
  const int layers = planning.chain.size();
  const int runs = *rc::gen::inRange(1, std::min(layers, 4) + 1);
  std::vector<int> types;
  for (int k = 0; k < runs; ++k) types.push_back(*rc::gen::inRange(0, 2));
  const LayerSeconds seconds(planning, 8);
  const auto bottleneck = [&](const std::vector<LayerRun>& cut) {
    double most = 0;
    for (size_t k = 0; k < cut.size(); ++k) {
      most = std::max(most, seconds.Of(types[k], cut[k].first, cut[k].last));
    }
    return most;
  };
  double best = 1e300;
  for (int mask = 0; mask < 1 << (layers - 1); ++mask) {
    std::vector<LayerRun> cut = {{0, 0}};
    for (int l = 1; l < layers; ++l) {
      if ((mask >> (l - 1) & 1) != 0) {
        cut.push_back({l, l});
      } else {
        cut.back().last = l;
      }
    }
    if (static_cast<int>(cut.size()) == runs) best = std::min(best, bottleneck(cut));
  }
  const std::vector<LayerRun> found = BalancedRuns(seconds, layers, types);
  RC_ASSERT(found.front().first == 0 && found.back().last == layers - 1);
  RC_ASSERT(std::abs(bottleneck(found) - best) <= 1e-12 * best);
}

// Without a network 1F1B on equal stages takes the critical path; the bound lacks only the
// gradients of weights, which another order could put off.
TEST(BoundsTest, OrderBoundIsTightForOneForwardOneBackwardOnAFastNetwork) {
  const Cluster cluster = ParseClusterToml(R"(
schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "64 GiB"
memory_bandwidth = "100 TB/s"
launch = "0 us"
[[node]]
name = "n"
devices = [{ type = "gpu", count = 4 }]
link = { bandwidth = "1000 TB/s", latency = "0 us" }
)",
                                           "test")
                              .value();
  const Planning planning =
      MakePlanning("mlp?layers=4&inputs=4096&hidden=4096&outputs=4096", 64, cluster);
  PlanRequest options = planning.request;
  options.microbatches = 16;
  const Planning fixed = Planning::Make(options, cluster, nullptr).value();
  const Plan plan = PlanOneForwardOneBackward(fixed).value();
  EXPECT_LE(plan.estimate.schedule_bound_seconds, plan.estimate.iteration_seconds * (1 + 1e-9));
  EXPECT_GE(plan.estimate.schedule_bound_seconds, plan.estimate.iteration_seconds * 0.85);
}

}  // namespace
}  // namespace heddle
