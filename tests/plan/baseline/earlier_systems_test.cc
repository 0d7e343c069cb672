#include "plan/baseline/earlier_systems.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "base/json_field.h"
#include "plan/pipeline/baselines.h"
#include "support/places.h"

namespace heddle {
namespace {

Planning MakePlanning(const std::string& model, int64_t batch, const std::string& cluster,
                      std::optional<int64_t> microbatches = {}) {
  static std::map<std::string, Cluster> clusters;
  if (!clusters.contains(cluster)) {
    clusters.emplace(cluster,
                     LoadCluster(SourceDir() + "/examples/clusters/" + cluster + ".toml").value());
  }
  PlanRequest options;
  options.model = model;
  options.batch = batch;
  options.microbatches = microbatches;
  return Planning::Make(options, clusters.at(cluster), nullptr).value();
}

using PlannerFunction = Result<Plan> (*)(const Planning&);
const std::vector<std::pair<std::string, PlannerFunction>> kPlanners = {
    {"pipedream", &PlanPipeDream}, {"dapple", &PlanDapple}, {"hetpipe", &PlanHetPipe}};

TEST(EarlierSystemsTest, PlansFitAreNoFasterThanTheirBoundsAndSurviveTheirJsonForm) {
  for (const char* cluster : {"mixed4", "irregular", "laptop", "slow-rack"}) {
    for (const char* model : {"tiny-gpt?layers=8", "mlp?layers=12"}) {
      const Planning planning = MakePlanning(model, 24, cluster);
      for (const auto& [name, planner] : kPlanners) {
        const Result<Plan> plan = planner(planning);
        ASSERT_TRUE(plan.ok()) << name << " " << model << ": " << plan.error().ToString();
        const Estimate& estimate = plan.value().estimate;
        EXPECT_EQ(plan.value().strategy, name);
        EXPECT_LE(estimate.lower_bound_seconds, estimate.schedule_bound_seconds) << name;
        EXPECT_LE(estimate.schedule_bound_seconds, estimate.iteration_seconds * (1 + 1e-9)) << name;
        for (const Estimate::Memory& memory : estimate.memory) {
          EXPECT_LE(memory.peak_bytes, memory.capacity_bytes);
        }
        const std::string text = PlanToJson(plan.value(), planning.graph).dump();
        const Result<Plan> again = ParsePlan(text, "plan.json");
        ASSERT_TRUE(again.ok()) << again.error().ToString();
        EXPECT_EQ(PlanToJson(again.value(), planning.graph).dump(), text) << name;
      }
    }
  }
}

TEST(EarlierSystemsTest, TheUsersMicrobatchesAreKept) {
  for (const int64_t microbatches : {1, 3, 8}) {
    const Planning planning = MakePlanning("tiny-gpt?layers=8", 24, "mixed4", microbatches);
    for (const auto& [name, planner] : kPlanners) {
      const Result<Plan> plan = planner(planning);
      ASSERT_TRUE(plan.ok()) << name << ": " << plan.error().ToString();
      EXPECT_EQ(plan.value().microbatches, microbatches) << name;
    }
  }
}

// One sample for four devices: somebody has nothing to do, and it is planned all the same.
TEST(EarlierSystemsTest, OneSampleAndOneLayer) {
  for (const char* model : {"tiny-mlp", "mlp?layers=1"}) {
    const Planning planning = MakePlanning(model, 1, "mixed4");
    for (const auto& [name, planner] : kPlanners) {
      const Result<Plan> plan = planner(planning);
      EXPECT_TRUE(plan.ok()) << name << " " << model << ": " << plan.error().ToString();
    }
  }
}

TEST(EarlierSystemsTest, TooLittleMemoryIsInfeasible) {
  const Planning planning = MakePlanning("gpt?layers=96&hidden=4096&heads=32", 4, "mixed4", 4);
  for (const auto& [name, planner] : kPlanners) {
    const Result<Plan> plan = planner(planning);
    ASSERT_FALSE(plan.ok()) << name;
    EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible) << name;
  }
}

// A slow link between two racks: stages are replicated inside of them, and beat what does without.
TEST(EarlierSystemsTest, ReplicatedStagesBeatStraightPipelinesOnTheSlowRack) {
  const Planning planning = MakePlanning("vgg19", 256, "slow-rack");
  const double straight = PlanOneForwardOneBackward(planning).value().estimate.iteration_seconds;
  for (const auto& [name, planner] : kPlanners) {
    const Plan plan = planner(planning).value();
    EXPECT_LT(plan.estimate.iteration_seconds, straight) << name;
    if (name == "hetpipe") continue;
    ASSERT_EQ(plan.pipelines.size(), 1U);
    EXPECT_GT(plan.devices_used(), static_cast<int>(plan.pipelines[0].stages.size())) << name;
  }
}

// Every worker has a pipeline, and none of its stages shares a device with another.
TEST(EarlierSystemsTest, HetPipeIsSeveralPipelines) {
  const Planning planning = MakePlanning("gpt?layers=24", 64, "irregular");
  const Plan plan = PlanHetPipe(planning).value();
  std::set<std::string> devices;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      ASSERT_EQ(stage.devices.size(), 1U);
      EXPECT_TRUE(devices.insert(stage.devices[0]).second);
    }
  }
  EXPECT_EQ(static_cast<int>(devices.size()), plan.devices_used());
}

}  // namespace
}  // namespace heddle
