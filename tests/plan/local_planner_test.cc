// LocalSGD: how many updates each device takes, and where the replicas are.
#include "plan/async/local_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "support/places.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(UpdatesBySpeedTest, InProportion) {
  EXPECT_THAT(UpdatesBySpeed({1, 1, 1}, 4), ElementsAre(4, 4, 4));
  EXPECT_THAT(UpdatesBySpeed({2, 1}, 3), ElementsAre(4, 2));
  EXPECT_THAT(UpdatesBySpeed({100, 1}, 4), ElementsAre(7, 1));
}

double RoundOf(const std::vector<int64_t>& updates, const std::vector<double>& speeds) {
  double longest = 0;
  for (size_t k = 0; k < speeds.size(); ++k) {
    longest = std::max(longest, static_cast<double>(updates[k]) / speeds[k]);
  }
  return longest;
}

// Moving an update from any device to any other does not shorten the round.
RC_GTEST_PROP(UpdatesBySpeedTest, NoneIsBetter, ()) {
  const auto speeds = *rc::gen::container<std::vector<double>>(
      *rc::gen::inRange(1, 6),
      rc::gen::map(rc::gen::inRange(1, 50), [](int s) { return s / 7.0; }));
  const int64_t every = *rc::gen::inRange(1, 12);
  const std::vector<int64_t> updates = UpdatesBySpeed(speeds, every);
  RC_ASSERT(std::accumulate(updates.begin(), updates.end(), int64_t{0}) ==
            every * std::ssize(speeds));
  for (size_t from = 0; from < speeds.size(); ++from) {
    RC_ASSERT(updates[from] >= 1);
    if (updates[from] == 1) continue;
    for (size_t to = 0; to < speeds.size(); ++to) {
      std::vector<int64_t> moved = updates;
      --moved[from];
      ++moved[to];
      RC_ASSERT(RoundOf(moved, speeds) >= RoundOf(updates, speeds) - 1e-12);
    }
  }
}

class LocalPlannerTest : public testing::Test {
 protected:
  static const Cluster& Mixed4() {
    static const Cluster cluster =
        LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
    return cluster;
  }
  static Result<Plan> PlanFor(const std::string& model, int64_t batch, ReplicaPlace place) {
    PlanRequest options;
    options.model = model;
    options.batch = batch;
    options.replicas = place;
    return PlanLocal(Planning::Make(options, Mixed4(), nullptr).value());
  }
};

TEST_F(LocalPlannerTest, FasterDevicesTakeMoreUpdates) {
  const Plan plan = PlanFor("gpt?layers=4", 8, ReplicaPlace::kWhole).value();
  ASSERT_EQ(plan.pipelines.size(), 4U);
  const std::vector<int64_t>& steps = plan.local->steps;
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GT(steps[0], steps[2]);
  EXPECT_EQ(plan.local->updates(), 4 * 8);
  EXPECT_LE(plan.estimate.lower_bound_seconds, plan.estimate.schedule_bound_seconds);
  EXPECT_LE(plan.estimate.schedule_bound_seconds, plan.estimate.iteration_seconds);
}

TEST_F(LocalPlannerTest, WhatDoesNotFitOnADeviceSharesAPipeline) {
  // Weights, gradients and the state of Adam: some 19 GB, and devices have 12 and 16 GiB.
  const std::string model = "gpt?layers=40&hidden=1536&heads=12&tied=0";
  const Result<Plan> whole = PlanFor(model, 2, ReplicaPlace::kWhole);
  ASSERT_FALSE(whole.ok());
  EXPECT_THAT(whole.error().what, HasSubstr("too much"));
  const Plan plan = PlanFor(model, 2, ReplicaPlace::kAny).value();
  EXPECT_EQ(plan.pipelines.size(), 1U);
  EXPECT_EQ(plan.pipelines[0].stages.size(), 4U);
}

// Of unlike devices only one may have room for the model, and that only for parts of the batch: it
// is a replica like any other, whose updates have as many microbatches as they need.
TEST_F(LocalPlannerTest, OneDeviceAloneMayHaveSeveralMicrobatches) {
  const auto plan_with = [](const std::string& memory, std::optional<int64_t> microbatches) {
    const Cluster cluster = ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.large]
flops = "10 TFLOP/s"
memory = ")" + memory + R"("
memory_bandwidth = "900 GB/s"
[device_type.small]
flops = "5 TFLOP/s"
memory = "1 MB"
memory_bandwidth = "500 GB/s"
[[node]]
name = "a"
devices = [{ type = "large" }]
[[node]]
name = "b"
devices = [{ type = "small" }]
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
)",
                                             "unlike.toml")
                                .value();
    PlanRequest options;
    options.model = "tiny-gpt?tied=0";
    options.batch = 64;
    options.microbatches = microbatches;
    options.replicas = ReplicaPlace::kWhole;
    return PlanLocal(Planning::Make(options, cluster, nullptr).value());
  };
  const Plan roomy = plan_with("1 GB", 1).value();
  const int64_t peak = roomy.estimate.memory[0].peak_bytes;
  const Result<Plan> plan = plan_with(std::to_string(peak * 3 / 4) + " B", std::nullopt);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_EQ(plan.value().devices_used(), 1);
  EXPECT_GT(plan.value().microbatches, 1);
}

TEST_F(LocalPlannerTest, NothingFits) {
  const Result<Plan> plan =
      PlanFor("gpt?layers=96&hidden=8160&heads=12&tied=0", 2, ReplicaPlace::kAny);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(plan.error().what, HasSubstr("too much"));
}

}  // namespace
}  // namespace heddle
