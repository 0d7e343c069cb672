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
  // Without noise replicas are equal: LocalSGD is SGD in longer rounds.
  Ground ground(SmallQuadratic(), {.stages = 3}, 0);
  ground.options.every = 1;
  ground.options.average_ticks = 4;
  EXPECT_EQ(RunNamed("local", ground).losses, SgdReference(ground, 6 + 4 + 4, 1).losses);
  EXPECT_EQ(RunNamed("local-plain", ground).losses, SgdReference(ground, 6 + 4, 1).losses);
}

TEST(LocalSgdTest, LocalAveragesReplicas) {
  const int stages = 3, every = 3;
  const Ground ground(SmallLogistic(), {.stages = stages}, 0.2);
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
  Ground outer(SmallLogistic(), {.stages = stages}, 0.2);
  outer.options.outer_momentum = 0;
  outer.options.outer_step = 1;
  EXPECT_NEAR(RunNamed("diloco", outer).last(), ground.objective->Loss(x.data()), 1e-12);
}

TEST(LocalSgdTest, DilocoIsNesterovOnTheAverages) {
  const Ground ground(SmallQuadratic(), {.stages = 2}, 0);
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
