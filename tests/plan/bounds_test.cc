// No plan is faster than its bounds: random partitions, replicas, orders and clusters.
#include <gtest/gtest.h>

#include <random>

#include "plan/baseline/earlier_systems.h"
#include "plan/cycle_bound.h"
#include "plan/order/best_order.h"
#include "plan/partition_bound.h"
#include "plan/pipeline/baselines.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/plain_plans.h"
#include "plan/pipeline/spp.h"
#include "random_cluster.h"
#include "support/places.h"

namespace heddle {
namespace {

// Random cuts and replicas, no more than rows, along the devices; some may be left out at the end.
std::vector<PartitionStage> RandomStages(std::mt19937& random, int layers, int devices, int rows) {
  std::vector<PartitionStage> stages;
  int first = 0, at = 0;
  while (first < layers) {
    const int left = devices - at;
    const bool last = left == 1 || random() % 3 == 0;
    const int end =
        last ? layers
             : first + 1 + static_cast<int>(random() % static_cast<unsigned>(layers - first));
    const int most = std::min(rows, end == layers ? left : left - 1);
    const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    stages.push_back({first, end, {at, count}, random() % 4 == 0});
    first = end;
    at += count;
  }
  return stages;
}

// Equal shares, by speed, and any others; links that compute waits for, or hardly.
TEST(BoundsTest, NoReplicasAreFasterThanTheirSumsAllow) {
  std::mt19937 random(11);
  const char* models[] = {"mlp?layers=6&hidden=512", "tiny-gpt?layers=4", "gpt?layers=2&seq=64",
                          "transformer?layers=2&seq=32"};
  int fitting = 0, tight = 0;
  for (int round = 0; round < 60; ++round) {
    const Cluster cluster = RandomCluster(random, 2 + static_cast<int>(random() % 4));
    PlanRequest options;
    options.model = models[random() % 4];
    options.batch = 1 + static_cast<int64_t>(random() % 40);
    options.links = static_cast<LinkModel>(random() % 3);
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    std::vector<double> shares =
        random() % 2 == 0 ? EqualShares(planning) : SharesBySpeed(planning);
    if (random() % 3 == 0) shares[0] *= 3;
    const int64_t most = std::min<int64_t>(options.batch, 12);
    const auto count = static_cast<int64_t>(1 + random() % static_cast<unsigned>(most));
    const Plan plan = ReplicasPlan(planning, "dp", shares, count);
    const Result<Evaluation> evaluated = Evaluate(planning, plan, false);
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().ToString();
    if (evaluated.value().lacks.value > 0) continue;
    const double seconds = evaluated.value().simulation.iteration.value;
    const double bound =
        ReplicasBoundWithSums(planning, shares, count, ReplicaSumSeconds(planning));
    EXPECT_LE(bound, seconds * (1 + 1e-9))
        << options.model << ", batch " << options.batch << ", " << count << " microbatches";
    ++fitting;
    tight += bound > 0.8 * seconds ? 1 : 0;
  }
  EXPECT_GT(fitting, 30);
  EXPECT_GT(tight, fitting / 3);
}

TEST(BoundsTest, NoRandomPlanIsFaster) {
  std::mt19937 random(7);
  const char* models[] = {"mlp?layers=6&hidden=512", "tiny-gpt?layers=4", "gpt?layers=2&seq=64",
                          "transformer?layers=2&seq=32"};
  int fitting = 0;
  for (int round = 0; round < 160; ++round) {
    const int devices = 2 + static_cast<int>(random() % 4);
    const Cluster cluster = RandomCluster(random, devices);
    PlanRequest options;
    options.model = models[random() % 4];
    options.batch = 32;
    const int64_t microbatches = int64_t{1} << random() % 5;
    options.microbatches = microbatches;
    options.links = static_cast<LinkModel>(random() % 3);
    const Result<Planning> made = Planning::Make(options, cluster, nullptr);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    const Planning& planning = made.value();
    const LayerTable table(planning);
    std::vector<int> order;
    for (int d = 0; d < devices; ++d) order.push_back(d);
    const auto line = std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{order});
    const auto costs = std::make_shared<StageCosts>(table, line, microbatches, 0.0);
    const Candidate candidate = StraightCandidate(
        costs,
        {RandomStages(random, table.layers(), devices, static_cast<int>(32 / microbatches)), 0, 0});
    const Result<OrderChoice> choice =
        BestOrder(ShapeOf(candidate, random() % 2 == 0), OrderOptions{});
    if (!choice.ok()) continue;  // does not fit
    const auto& best = choice.value().best;
    const Plan plan = PlanOf(candidate, best.name, best.orders);
    const Result<Evaluation> evaluated = Evaluate(planning, plan, false);
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().ToString();
    const Evaluation& evaluation = evaluated.value();
    if (evaluation.lacks.value > 0) continue;
    ++fitting;
    const double seconds = evaluation.simulation.iteration.value;
    EXPECT_LE(OrderBound(planning, plan, evaluation).value, seconds * (1 + 1e-9))
        << round << " " << Describe(candidate) << " links " << NameOf(plan.request.links);
    EXPECT_LE(PartitionBound(planning, Seconds{0}, Seconds{1e3}).value, seconds * (1 + 1e-9))
        << round << " " << Describe(candidate);
  }
  EXPECT_GT(fitting, 80);
}

// The bound for any plan holds for the plans of all planners whose pipelines are alike.
TEST(BoundsTest, NoPlannerIsFaster) {
  for (const char* name : {"mixed4", "equal8", "irregular"}) {
    const Cluster cluster =
        LoadCluster(SourceDir() + "/examples/clusters/" + name + ".toml").value();
    for (const int64_t microbatches : {4, 16}) {
      PlanRequest options;
      options.model = "gpt?layers=6&seq=128";
      options.batch = 64;
      options.microbatches = microbatches;
      const Planning planning = Planning::Make(options, cluster, nullptr).value();
      const double bound = PartitionBound(planning, Seconds{0}, Seconds{1e3}).value;
      for (const auto planner :
           {&PlanDataParallel, &PlanGpipe, &PlanOneForwardOneBackward, &PlanInterleaved, &PlanZbH1,
            &PlanPipeDream, &PlanDapple, &PlanPipeline}) {
        const Result<Plan> plan = planner(planning);
        if (!plan.ok()) continue;
        EXPECT_LE(bound, plan.value().estimate.iteration_seconds * (1 + 1e-9))
            << plan.value().strategy << " on " << name << ", " << microbatches << " microbatches";
      }
    }
  }
}

// A number of microbatches that is not given may be any: the bound is none of those with a number.
TEST(BoundsTest, AnyNumberOfMicrobatchesIsInTheFamily) {
  for (const char* name : {"mixed4", "equal8", "irregular"}) {
    const Cluster cluster =
        LoadCluster(SourceDir() + "/examples/clusters/" + name + ".toml").value();
    PlanRequest options;
    options.model = "gpt?layers=6&seq=128";
    options.batch = 512;
    const auto bound = [&] {
      const Planning planning = Planning::Make(options, cluster, nullptr).value();
      return PartitionBound(planning, Seconds{0}, Seconds{1}).value;
    };
    const double any = bound();
    for (int64_t microbatches = 1; microbatches <= options.batch; microbatches *= 2) {
      options.microbatches = microbatches;
      EXPECT_LE(any, bound() * (1 + 1e-9)) << name << ", " << microbatches << " microbatches";
    }
  }
}

}  // namespace
}  // namespace heddle
