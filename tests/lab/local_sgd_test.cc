// LocalSGD and DiLoCo.

#include "lab/local_sgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ground.h"

namespace heddle {
namespace {

TEST(LocalSgdTest, OneReplicaOfOneStepIsSgd) {
  for (const char* name : {"local", "local-plain"}) {
    Ground ground(SmallQuadratic(), {.stages = 1}, 0.3);
    ground.options.every = 1;
    EXPECT_EQ(RunNamed(name, ground).losses, SgdReference(ground, 2, 1).losses);
  }
  // Without noise replicas are equal: at the end of rounds LocalSGD is SGD in longer rounds.
  Ground ground(SmallQuadratic(), {.stages = 3}, 0, /*ticks=*/280);
  ground.options.every = 1;
  ground.options.average_ticks = 4;
  ground.options.points = 20;
  const Curve local = RunNamed("local", ground), sgd = SgdReference(ground, 6 + 4 + 4, 1);
  for (size_t k = 0; k < local.losses.size(); ++k) {
    EXPECT_NEAR(local.losses[k], sgd.losses[k], 1e-12 * sgd.losses[k]);
  }
  ground.options.points = 28;
  const Curve plain = RunNamed("local-plain", ground), plain_sgd = SgdReference(ground, 6 + 4, 1);
  for (size_t k = 0; k < plain.losses.size(); ++k) {
    EXPECT_NEAR(plain.losses[k], plain_sgd.losses[k], 1e-12 * plain_sgd.losses[k]);
  }
}

// Every tick of two rounds and a half, written on events: each backward changes one block of one
// replica, and the loss is that of the average as it is.
Curve RunningAverage(const Ground& ground) {
  const int stages = ground.stages();
  const int64_t every = ground.options.every, in_round = stages * every;
  const std::vector<Block> blocks = ground.objective->Blocks(stages);
  const int64_t length = 2 * in_round + 2 * (stages - 1);
  std::vector<std::vector<double>> replicas(static_cast<size_t>(stages),
                                            ground.objective->Start(kSeed));
  const auto average = [&] {
    std::vector<double> mean(replicas[0].size());
    for (const auto& replica : replicas) {
      for (size_t k = 0; k < mean.size(); ++k) mean[k] += replica[k];
    }
    for (double& element : mean) element /= stages;
    return mean;
  };
  std::vector<std::vector<double>> gradients(static_cast<size_t>(stages));
  Curve curve;
  for (int64_t tick = 0; tick < ground.options.ticks; ++tick) {
    const int64_t round = tick / length, at = tick % length;
    for (int s = 0; s < stages; ++s) {
      for (int64_t q = 0; q < in_round; ++q) {
        const auto r = static_cast<size_t>(q % stages);
        const int64_t microbatch = round * in_round + q;
        // A replica's microbatch reads it before any block changes.
        if (s == 0 && at == 2 * q) gradients[r] = ground.FullGradient(replicas[r], microbatch);
        if (at != 2 * q + 2 * stages - 1 - s) continue;
        const Block& block = blocks[static_cast<size_t>(s)];
        for (auto k = static_cast<size_t>(block.begin); k < static_cast<size_t>(block.end); ++k) {
          replicas[r][k] -= ground.step_size * gradients[r][k];
        }
      }
    }
    if (at == length - 1) {
      const std::vector<double> mean = average();
      for (auto& replica : replicas) replica = mean;
    }
    curve.losses.push_back(ground.objective->Loss(average().data()));
  }
  return curve;
}

TEST(LocalSgdTest, LossesAreThoseOfTheRunningAverage) {
  const int64_t length = 2 * 3 * 2 + 2 * 2;
  const std::pair<const char*, double> cases[] = {
      {"quadratic", 0.0}, {"quadratic", 0.2}, {"logistic", 0.1}};
  for (const auto& [name, sigma] : cases) {
    ObjectiveOptions problem{.data = "", .dimension = 12};
    if (name == std::string("logistic")) problem.batch = 2;
    const int64_t ticks = 2 * length + length / 2;
    Ground ground(MakeProblem(name, problem).value(), {.stages = 3}, sigma, ticks);
    ground.options.every = 2;
    ground.options.points = static_cast<int>(ticks);
    const Curve expected = RunningAverage(ground), found = RunNamed("local", ground);
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t k = 0; k < found.losses.size(); ++k) {
      EXPECT_NEAR(found.losses[k], expected.losses[k], 1e-12) << name << " tick " << k;
    }
    // What is taken only at the end is the same.
    ground.options.points = 1;
    EXPECT_NEAR(RunNamed("local", ground).last(), expected.last(), 1e-12);
  }
}

TEST(LocalSgdTest, LocalAveragesReplicas) {
  const int stages = 3, every = 3;
  const int64_t whole = 13 * (2 * stages * every + 2 * (stages - 1));
  const Ground ground(SmallLogistic(), {.stages = stages}, 0.2, whole);
  std::vector<double> x = ground.objective->Start(kSeed);
  const int64_t length = 2 * stages * every + 2 * (stages - 1);
  EXPECT_EQ(LocalRoundTicks(ground.trial(), LocalKind::kMultiplexed), length);
  EXPECT_EQ(LocalRoundTicks(ground.trial(), LocalKind::kPlain), 2 * stages * every);
  for (int64_t round = 0; (round + 1) * length <= ground.options.ticks; ++round) {
    std::vector<double> sum(x.size());
    for (int64_t r = 0; r < stages; ++r) {
      std::vector<double> replica = x;
      for (int64_t h = 0; h < every; ++h) {
        const auto gradient = ground.FullGradient(replica, round * stages * every + h * stages + r);
        for (size_t k = 0; k < x.size(); ++k) replica[k] -= ground.step_size * gradient[k];
      }
      for (size_t k = 0; k < x.size(); ++k) sum[k] += replica[k];
    }
    for (size_t k = 0; k < x.size(); ++k) x[k] = sum[k] / stages;
  }
  EXPECT_EQ(RunNamed("local", ground).last(), ground.objective->Loss(x.data()));
  // DiLoCo whose outer step takes the average over is LocalSGD.
  Ground outer(SmallLogistic(), {.stages = stages}, 0.2, whole);
  outer.options.outer_momentum = 0;
  outer.options.outer_step = 1;
  EXPECT_NEAR(RunNamed("diloco", outer).last(), ground.objective->Loss(x.data()), 1e-12);
}

TEST(LocalSgdTest, DilocoIsNesterovOnTheAverages) {
  const Ground ground(SmallQuadratic(), {.stages = 2}, 0, /*ticks=*/21 * 14);
  const double momentum = ground.options.outer_momentum, step = ground.options.outer_step;
  std::vector<double> x = ground.objective->Start(kSeed), velocity(x.size());
  for (int64_t round = 0; (round + 1) * 14 <= ground.options.ticks; ++round) {
    std::vector<double> inner = x;
    for (int h = 0; h < 3; ++h) {
      const auto gradient = ground.FullGradient(inner, 0);
      for (size_t k = 0; k < x.size(); ++k) inner[k] -= ground.step_size * gradient[k];
    }
    for (size_t k = 0; k < x.size(); ++k) {
      velocity[k] = momentum * velocity[k] + (x[k] - inner[k]);
      x[k] -= step * ((x[k] - inner[k]) + momentum * velocity[k]);
    }
  }
  EXPECT_EQ(RunNamed("diloco", ground).last(), ground.objective->Loss(x.data()));
}

}  // namespace
}  // namespace heddle
