// The pipeline planner as a whole: its plans are sound, and no baseline is faster where the search
// leaves nothing out.
#include "plan/pipeline/spp.h"

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "plan/baseline/earlier_systems.h"
#include "plan/pipeline/baselines.h"
#include "support/places.h"

namespace heddle {
namespace {

Cluster ClusterNamed(const std::string& name) {
  return LoadCluster(SourceDir() + "/examples/clusters/" + name + ".toml").value();
}

TEST(SppTest, NoBaselineIsFaster) {
  for (const char* name : {"mixed4", "equal8", "irregular"}) {
    const Cluster cluster = ClusterNamed(name);
    for (const char* model : {"gpt?layers=12&seq=128", "vgg19?image=64", "mlp?layers=12",
                              "transformer?layers=3&seq=32", "resnet152?image=64&blocks3=4"}) {
      PlanRequest options;
      options.model = model;
      options.batch = 64;
      const Planning planning = Planning::Make(options, cluster, nullptr).value();
      const Plan ours = PlanPipeline(planning).value();
      const Estimate& estimate = ours.estimate;
      EXPECT_LE(estimate.lower_bound_seconds, estimate.schedule_bound_seconds * (1 + 1e-9));
      EXPECT_LE(estimate.schedule_bound_seconds, estimate.iteration_seconds * (1 + 1e-9));
      for (const Estimate::Memory& memory : estimate.memory) {
        EXPECT_LE(memory.peak_bytes, memory.capacity_bytes);
      }
      for (const auto planner : {&PlanDataParallel, &PlanDataParallelProportional, &PlanGpipe,
                                 &PlanZbH1, &PlanOneForwardOneBackward, &PlanInterleaved,
                                 &PlanPipeDream, &PlanDapple, &PlanHetPipe}) {
        const Result<Plan> other = planner(planning);
        if (!other.ok()) continue;
        EXPECT_LE(estimate.iteration_seconds, 1.02 * other.value().estimate.iteration_seconds)
            << model << " on " << name << " against " << other.value().strategy;
      }
    }
  }
}

TEST(SppTest, TheSameEveryTime) {
  const Cluster cluster = ClusterNamed("mixed4");
  PlanRequest options;
  options.model = "gpt?layers=12&seq=128";
  options.batch = 64;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Plan first = PlanPipeline(planning).value();
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(PlanToJson(PlanPipeline(planning).value(), planning.graph).dump(),
              PlanToJson(first, planning.graph).dump());
  }
}

// A model that fits nowhere whole is cut; one that fits nowhere at all is refused with the reason.
TEST(SppTest, MemoryDecides) {
  const Cluster cluster = ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.small]
flops = "10 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "small", count = 4 }]
link = { bandwidth = "10 GB/s" }
)",
                                           "small.toml")
                              .value();
  PlanRequest options;
  options.model = "gpt?layers=12&seq=128";
  options.batch = 32;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Result<Plan> plan = PlanPipeline(planning);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_GT(plan.value().pipelines[0].stages.size(), 1U);
  options.model = "gpt?layers=48&seq=128";
  const Planning large = Planning::Make(options, cluster, nullptr).value();
  const Result<Plan> none = PlanPipeline(large);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kInfeasible);
  EXPECT_NE(none.error().ToString().find("too much"), std::string::npos) << none.error().ToString();
}

}  // namespace
}  // namespace heddle
