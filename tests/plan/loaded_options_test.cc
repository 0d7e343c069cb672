// A plan that was read plans again with its own options.

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json_field.h"
#include "choose/planners.h"
#include "plan/planning.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

PlanRequest OptionsAfterLoading(const PlanRequest& options, const std::string& strategy) {
  const ScratchFolder folder;
  const Cluster cluster = LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Plan plan = MakePlan(strategy, planning).value();
  EXPECT_TRUE(WriteFile(folder / "plan.json", PlanToJson(plan, planning.graph).dump()).ok());
  return LoadForUse(folder / "plan.json", nullptr).value().planning->request;
}

TEST(LoadedOptionsTest, VersionsOfAnAsynchronousPipeline) {
  PlanRequest options;
  options.model = "tiny-gpt?tied=0&layers=6";
  options.batch = 8;
  for (const WeightVersions versions : kWeightVersions) {
    options.versions = versions;
    EXPECT_EQ(OptionsAfterLoading(options, "async").versions, versions) << NameOf(versions);
  }
}

TEST(LoadedOptionsTest, RoundsAndReplicasOfLocalSgd) {
  PlanRequest options;
  options.model = "tiny-mlp?layers=6";
  options.batch = 8;
  for (const ReplicaPlace place : {ReplicaPlace::kWhole, ReplicaPlace::kPipelined}) {
    options.replicas = place;
    for (const int64_t every : {1, 3, 8, 11}) {
      options.every = every;
      const PlanRequest loaded = OptionsAfterLoading(options, "local");
      EXPECT_EQ(loaded.every, every);
      EXPECT_EQ(loaded.replicas, place);
    }
  }
}

// A number that the planner chose is none that was asked for: the next plan may choose another.
TEST(LoadedOptionsTest, MicrobatchesOnlyIfTheyWereGiven) {
  PlanRequest options;
  options.model = "tiny-mlp?layers=6";
  options.batch = 16;
  EXPECT_EQ(OptionsAfterLoading(options, "1f1b").microbatches, std::nullopt);
  options.microbatches = 4;
  EXPECT_EQ(OptionsAfterLoading(options, "1f1b").microbatches, 4);
}

// What explain says of a plan is what plan said.
TEST(LoadedOptionsTest, TheBoundsOfAPlanThatWasReadAreItsOwn) {
  const ScratchFolder folder;
  const Cluster cluster = LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  for (const std::optional<int64_t> microbatches : {std::optional<int64_t>{}, {2}}) {
    for (const char* strategy : {"dp", "1f1b", "pipeline", "spmd"}) {
      PlanRequest options;
      options.model = "tiny-gpt";
      options.batch = 16;
      options.microbatches = microbatches;
      const Planning planning = Planning::Make(options, cluster, nullptr).value();
      const Plan plan = MakePlan(strategy, planning).value();
      ASSERT_TRUE(WriteFile(folder / "plan.json", PlanToJson(plan, planning.graph).dump()).ok());
      LoadedPlan loaded = LoadForUse(folder / "plan.json", nullptr).value();
      const Evaluation evaluation =
          EvaluateFitting(*loaded.planning, loaded.plan, /*keep_events=*/false).value();
      FillEstimate(*loaded.planning, evaluation, loaded.plan);
      EXPECT_EQ(loaded.plan.estimate.lower_bound_seconds, plan.estimate.lower_bound_seconds)
          << strategy;
      EXPECT_EQ(loaded.plan.estimate.schedule_bound_seconds, plan.estimate.schedule_bound_seconds)
          << strategy;
    }
  }
}

TEST(LoadedOptionsTest, WhatHoldsForAnyStrategy) {
  PlanRequest options;
  options.model = "tiny-mlp?layers=6";
  options.batch = 16;
  options.dtype = DType::kBf16;
  options.optimizer = Optimizer::kMomentum;
  options.clip = 0.5;
  options.compress = true;
  options.sync = GradientSync::kAllReduce;
  options.links = LinkModel::kExclusive;
  const PlanRequest loaded = OptionsAfterLoading(options, "dp");
  EXPECT_EQ(loaded.model, options.model);
  EXPECT_EQ(loaded.batch, 16);
  EXPECT_EQ(loaded.dtype, DType::kBf16);
  EXPECT_EQ(loaded.optimizer, Optimizer::kMomentum);
  EXPECT_EQ(loaded.clip, 0.5);
  EXPECT_TRUE(loaded.compress);
  EXPECT_EQ(loaded.links, LinkModel::kExclusive);
}

}  // namespace
}  // namespace heddle
