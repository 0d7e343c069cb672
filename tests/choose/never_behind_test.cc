// `spmd` against what it must never be slower than, on random small models and clusters.
#include <gtest/gtest.h>

#include <random>

#include "choose/planners.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

template <class T>
T OneOf(std::mt19937& random, const std::vector<T>& some) {
  return some[random() % some.size()];
}

PlanRequest RandomOptions(std::mt19937& random) {
  PlanRequest options;
  options.model = OneOf<std::string>(
      random, {"tiny-mlp", "mlp?layers=3&inputs=512&hidden=512&outputs=64", "tiny-gpt?layers=2",
               "tiny-moe?layers=2&experts=8", "bert-base?layers=2&hidden=64&heads=4&vocab=500",
               "vgg19?image=32"});
  options.batch = OneOf<int64_t>(random, {16, 48});
  options.optimizer = OneOf<Optimizer>(random, {Optimizer::kSgd, Optimizer::kAdam});
  options.clip = OneOf<double>(random, {0.0, 1.0});
  return options;
}

// The most that a device needs under plain data parallelism.
double ReplicatedBytes(const PlanRequest& options, const Cluster& cluster) {
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Result<Plan> plan = MakePlan("dp", planning);
  double most = 0;
  for (const Estimate::Memory& memory : plan.value().estimate.memory) {
    most = std::max(most, static_cast<double>(memory.peak_bytes));
  }
  return most;
}

TEST(Spmd, IsNeverBehindABaseline) {
  std::mt19937 random(11);
  int compared = 0;
  for (int round = 0; round < 16; ++round) {
    const PlanRequest options = RandomOptions(random);
    ClusterNumbers numbers = RandomCluster(random);
    numbers.flops *= 1e3;
    // Every third round with less memory than data parallelism would like.
    if (round % 3 == 0) {
      numbers.memory = std::ceil(0.7 * ReplicatedBytes(options, ClusterOf(numbers)));
    }
    const Cluster cluster = ClusterOf(numbers);
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    const Result<Plan> ours = MakePlan("spmd", planning);
    for (const char* name :
         {"dp", "dp-proportional", "zero", "tensor-parallel", "expert-parallel"}) {
      const Result<Plan> theirs = MakePlan(name, planning);
      if (!theirs.ok()) {
        EXPECT_EQ(theirs.error().kind, ErrorKind::kInfeasible) << theirs.error().ToString();
        continue;
      }
      ++compared;
      ASSERT_TRUE(ours.ok()) << name << " has a plan of " << options.model << " in round " << round
                             << ": " << ours.error().ToString();
      EXPECT_LE(ours.value().estimate.iteration_seconds,
                theirs.value().estimate.iteration_seconds * (1 + 1e-9))
          << name << ", " << options.model << ", round " << round;
    }
  }
  EXPECT_GT(compared, 40);
}

// Servers and compression are for whole replicas: what `spmd` has of those is its plan.
TEST(Spmd, IsDataParallelWhereGradientsAreServedOrCompressed) {
  std::mt19937 random(3);
  const Cluster cluster = ClusterOf(RandomCluster(random));
  for (const bool servers : {false, true}) {
    PlanRequest options;
    options.model = "tiny-gpt?layers=2";
    options.batch = 48;
    options.compress = !servers;
    if (servers) options.sync = GradientSync::kServers;
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    const Result<Plan> ours = MakePlan("spmd", planning);
    ASSERT_TRUE(ours.ok()) << ours.error().ToString();
    EXPECT_FALSE(ours.value().spmd.has_value());
    for (const char* name : {"dp", "dp-proportional"}) {
      EXPECT_LE(ours.value().estimate.iteration_seconds,
                MakePlan(name, planning).value().estimate.iteration_seconds * (1 + 1e-9));
    }
    const Result<Plan> zero = MakePlan("zero", planning);
    ASSERT_FALSE(zero.ok());
    EXPECT_EQ(zero.error().kind, ErrorKind::kInfeasible);
    const std::string option = servers ? "--sync ps" : "--compress fp16";
    EXPECT_NE(zero.error().what.find(option), std::string::npos) << zero.error().ToString();
  }
}

}  // namespace
}  // namespace heddle
