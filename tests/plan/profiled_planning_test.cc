// Layer profiles through the planners: examples/profiles/tiny.txt, and published ones where they
// are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json_field.h"
#include "plan/pipeline/baselines.h"
#include "plan/planning.h"
#include "support/places.h"
#include "support/profiles.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const std::string kTiny = SourceDir() + "/examples/profiles/tiny.txt";

Cluster ClusterOf(const std::string& first, const std::string& second) {
  const auto type = [](const std::string& name, const char* flops) {
    return "[device_type." + name + "]\nflops = \"" + flops +
           "\"\nmemory = \"64 GiB\"\nmemory_bandwidth = \"900 GB/s\"\n";
  };
  return ParseClusterToml("schema = \"heddle.cluster/1\"\n" + type(first, "8 TFLOP/s") +
                              type(second, "16 TFLOP/s") +
                              "[[node]]\nname = \"a\"\ndevices = [{ type = \"" + first +
                              "\", count = 2 }, { type = \"" + second +
                              "\", count = 2 }]\nlink = { bandwidth = \"20 GB/s\", latency = "
                              "\"2 us\" }\n",
                          "c.toml")
      .value();
}

PlanRequest OptionsFor(const std::string& model, int64_t profile_batch) {
  PlanRequest options;
  options.model = model;
  options.batch = 64;
  if (profile_batch > 0) options.profile_batch = profile_batch;
  return options;
}

// Of the op in front on each of two types, for the profiled number of samples.
std::pair<double, double> SecondsOnBoth(const Planning& planning) {
  const Op& op = planning.graph.op(*planning.graph.FindOp("node2"));
  const OpCost cost = planning.cost();
  return {cost.RowsSeconds(op, 32, planning.type_of(0)).value,
          cost.RowsSeconds(op, 32, planning.type_of(2)).value};
}

TEST(ProfiledPlanningTest, TimesHoldForTheTypeProfiledAndScaleForOthers) {
  const Cluster cluster = ClusterOf("slow", "fast");
  PlanRequest options = OptionsFor(kTiny, 32);
  const Planning fastest = Planning::Make(options, cluster, nullptr).value();
  EXPECT_EQ(fastest.request.profile_device, "fast");
  EXPECT_NEAR(SecondsOnBoth(fastest).first, 4e-3, 1e-12);
  EXPECT_NEAR(SecondsOnBoth(fastest).second, 2e-3, 1e-12);
  options.profile_device = "slow";
  const Planning named = Planning::Make(options, cluster, nullptr).value();
  EXPECT_NEAR(SecondsOnBoth(named).first, 2e-3, 1e-12);
  EXPECT_NEAR(SecondsOnBoth(named).second, 1e-3, 1e-12);
}

TEST(ProfiledPlanningTest, TheTypeLikeV100IsTheDefault) {
  const Cluster cluster = ClusterOf("Tesla-V100-PCIe", "a100");
  EXPECT_EQ(ProfiledType(cluster.spec(), "", DType::kF32).value().name, "Tesla-V100-PCIe");
  EXPECT_EQ(ProfiledType(cluster.spec(), "a100", DType::kF32).value().name, "a100");
  EXPECT_THAT(ProfiledType(cluster.spec(), "a10", DType::kF32).error().ToString(),
              HasSubstr("did you mean \"a100\"?"));
}

TEST(ProfiledPlanningTest, RefusesWhatDoesNotBelongTogether) {
  const Cluster cluster = ClusterOf("v100", "a100");
  const auto error = [&](const std::string& model, int64_t profile_batch) {
    const auto made = Planning::Make(OptionsFor(model, profile_batch), cluster, nullptr);
    return made.ok() ? "accepted" : made.error().ToString();
  };
  EXPECT_THAT(error("tiny-mlp", 32), HasSubstr("\"tiny-mlp\" is no layer profile"));
  EXPECT_THAT(error(kTiny, 0), HasSubstr("--profile-batch"));
  EXPECT_THAT(error("no/such/file.txt", 4), HasSubstr("no/such/file.txt"));
}

TEST(ProfiledPlanningTest, PlansCarryWhatTheirTimesWereMeasuredWith) {
  const Cluster cluster = ClusterOf("v100", "a100");
  const Planning planning = Planning::Make(OptionsFor(kTiny, 32), cluster, nullptr).value();
  const Plan plan = PlanOneForwardOneBackward(planning).value();
  const Plan again = ParsePlan(PlanToJson(plan, GraphOf(plan).value()).dump(), "plan.json").value();
  EXPECT_EQ(again.request.profile_batch, 32);
  EXPECT_EQ(again.request.profile_device, "v100");
  EXPECT_EQ(again.model_hash, planning.graph.ContentHash());
}

// Every planner's plan of every profile, ours and published, lowers, checks and simulates (Evaluate
// says so).
TEST(ProfiledPlanningTest, OursAndPublishedProfiles) {
  const Cluster cluster = ClusterOf("v100", "a100");
  for (const std::filesystem::path& path : AllProfiles()) {
    const Planning planning = Planning::Make(OptionsFor(path, 64), cluster, nullptr).value();
    for (const auto planner : {&PlanDataParallel, &PlanGpipe, &PlanOneForwardOneBackward}) {
      const auto plan = planner(planning);
      ASSERT_TRUE(plan.ok()) << path << ": " << plan.error().ToString();
      EXPECT_LE(plan.value().estimate.schedule_bound_seconds,
                plan.value().estimate.iteration_seconds * (1 + 1e-9));
    }
  }
}

}  // namespace
}  // namespace heddle
