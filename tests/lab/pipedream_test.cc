// PipeDream and its variants.

#include "lab/pipedream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ground.h"

namespace heddle {
namespace {

// Every block after each of its own updates, by a recurrence: x_j^{m+1} = x_j^m - γ ∇_j f(z(m)),
// z_i(m) = x_i after `version(i, m)` updates.
using Histories = std::vector<std::vector<std::vector<double>>>;  // block, version, values

template <class Version>
Curve DelayedReference(const Ground& ground, const Version& version) {
  const int stages = ground.stages();
  const auto blocks = SplitBlocks(ground.objective->dimension(), stages);
  const std::vector<double> start = ground.objective->Start(kSeed);
  Histories x;
  for (const Block& block : blocks) {
    x.push_back({{start.begin() + block.begin, start.begin() + block.end}});
  }
  for (int64_t m = 0; 2 * m + stages < ground.options.ticks; ++m) {
    std::vector<double> z;
    for (int i = 0; i < stages; ++i) {
      const auto& values = x[static_cast<size_t>(i)][static_cast<size_t>(version(i, m))];
      z.insert(z.end(), values.begin(), values.end());
    }
    for (int j = 0; j < stages; ++j) {
      const auto gradient = ground.BlockGradient(z, blocks[static_cast<size_t>(j)], m);
      std::vector<double> next = x[static_cast<size_t>(j)].back();
      for (size_t k = 0; k < next.size(); ++k) next[k] -= ground.step_size * gradient[k];
      x[static_cast<size_t>(j)].push_back(next);
    }
  }
  Curve curve;
  for (int point = 0; point < ground.options.points; ++point) {
    std::vector<double> at;
    for (int j = 0; j < stages; ++j) {
      // B(j, m) ends at time 2m + 2S - j.
      const int64_t late = PointTick(ground.options, point) - (2 * stages - j);
      const int64_t updates = late < 0 ? 0 : late / 2 + 1;
      const auto& values = x[static_cast<size_t>(j)][static_cast<size_t>(updates)];
      at.insert(at.end(), values.begin(), values.end());
    }
    curve.losses.push_back(ground.objective->Loss(at.data()));
  }
  return curve;
}

// SGD without delay: update m is there when B(0, m) has ended.
TEST(PipeDreamTest, WithoutDelayItIsPlainDescentAtTheSamePace) {
  for (const int stages : {1, 3, 8}) {
    const Ground ground(SmallQuadratic(), {.stages = stages}, 0.3);
    const Block whole{0, ground.objective->dimension()};
    std::vector<double> x = ground.objective->Start(kSeed);
    int64_t updates = 0;
    std::vector<double> losses;
    for (int point = 0; point < ground.options.points; ++point) {
      const int64_t drained = (PointTick(ground.options, point) - 2 * (stages - 1)) / 2;
      for (; updates < drained; ++updates) {
        const std::vector<double> gradient = ground.BlockGradient(x, whole, updates);
        for (size_t k = 0; k < x.size(); ++k) x[k] -= ground.step_size * gradient[k];
      }
      losses.push_back(ground.objective->Loss(x.data()));
    }
    const Curve curve = RunWithoutDelay(ground.trial());
    ASSERT_EQ(curve.losses.size(), losses.size());
    for (size_t k = 0; k < losses.size(); ++k) {
      EXPECT_NEAR(curve.losses[k], losses[k], 1e-9 * losses[k]);
    }
  }
}

TEST(PipeDreamTest, StashedBlocksAreTheirOwnDelayOld) {
  for (const int stages : {1, 2, 5, 8}) {
    for (const double sigma : {0.0, 0.3}) {
      const Ground ground(SmallQuadratic(), {.stages = stages}, sigma);
      const Curve expected = DelayedReference(
          ground, [&](int j, int64_t m) { return std::max<int64_t>(0, m - (stages - 1 - j)); });
      EXPECT_EQ(RunNamed("pd", ground).losses, expected.losses) << stages;
    }
  }
  const Ground ground(SmallLogistic(), {.stages = 4}, 0.1);
  EXPECT_EQ(RunNamed("pd", ground).losses, DelayedReference(ground, [](int j, int64_t m) {
                                             return std::max<int64_t>(0, m - (3 - j));
                                           }).losses);
}

TEST(PipeDreamTest, VerticalSyncIsAsOldEverywhere) {
  for (const int stages : {1, 2, 6}) {
    const Ground ground(SmallQuadratic(), {.stages = stages}, 0.2);
    const Curve expected = DelayedReference(
        ground, [&](int, int64_t m) { return std::max<int64_t>(0, m - (stages - 1)); });
    EXPECT_EQ(RunNamed("pd-vertical", ground).losses, expected.losses) << stages;
  }
}

// Times change when things happen, not what is read on the way.
TEST(PipeDreamTest, CostsOnlyStretchPipeDream) {
  const Ground unit(SmallQuadratic(), {.stages = 1}, 0.2, 300);
  const Ground slow(SmallQuadratic(), {.stages = 1, .backward = 2}, 0.2, 450);
  EXPECT_EQ(RunNamed("pd", unit).last(), RunNamed("pd", slow).last());
}

// Two stages by hand. B(1, m) follows F(1, m) at once; B(0, m) sees block 0 of its own time, and
// block 1 as B(1, m) saw it.
TEST(PipeDreamTest, WithoutStashingTheBackwardSeesItsOwnTime) {
  const Ground ground(SmallQuadratic(), {.stages = 2}, 0);
  const auto blocks = SplitBlocks(22, 2);
  std::vector<double> x = ground.objective->Start(kSeed);
  // Order of events: F(0,m+1) at 2m+2 comes before B(1,m) at 2m+2, then B(0,m) at 2m+3.
  std::vector<double> first = x;  // what F(0, 0) read
  int64_t m = 0;
  for (; 2 * m + 4 <= ground.options.ticks; ++m) {
    const std::vector<double> second = x;  // what F(0, m + 1) reads
    std::vector<double> z = x;
    std::copy(first.begin(), first.begin() + blocks[0].end, z.begin());
    const auto gradient1 = ground.BlockGradient(z, blocks[1], m);
    std::copy(x.begin(), x.begin() + blocks[0].end, z.begin());
    const auto gradient0 = ground.BlockGradient(z, blocks[0], m);
    for (size_t k = 0; k < 11; ++k) {
      x[11 + k] -= ground.step_size * gradient1[k];
      x[k] -= ground.step_size * gradient0[k];
    }
    first = second;
  }
  EXPECT_EQ(m, 149);
  EXPECT_EQ(RunNamed("pd-nostash", ground).last(), ground.objective->Loss(x.data()));
  EXPECT_NE(RunNamed("pd-nostash", ground).last(), RunNamed("pd", ground).last());
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  EXPECT_EQ(RunNamed("pd-nostash", one).losses, RunNamed("pd", one).losses);
}

TEST(PipeDreamTest, StagesMayHaveStepsOfTheirOwn) {
  // With one stage γ / (S - 0) = γ. With two, block 0 moves half as far in its first update.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  EXPECT_EQ(RunNamed("pd-stage-steps", one).losses, RunNamed("pd", one).losses);
  Ground two(SmallQuadratic(), {.stages = 2}, 0, 4);  // ends with B(0, 0)
  two.options.points = 1;
  std::vector<double> x = two.objective->Start(kSeed);
  const auto gradient = two.FullGradient(x, 0);
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] -= two.step_size / (k < 11 ? 2 : 1) * gradient[k];
  }
  EXPECT_EQ(RunNamed("pd-stage-steps", two).last(), two.objective->Loss(x.data()));
}

TEST(PipeDreamTest, MomentumAndLookAhead) {
  // One stage: v ← βv + (1-β)g; nothing to look ahead to.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  std::vector<double> x = one.objective->Start(kSeed), velocity(x.size());
  for (int64_t m = 0; 2 * m + 2 <= one.options.ticks; ++m) {
    const auto gradient = one.FullGradient(x, m);
    for (size_t k = 0; k < x.size(); ++k) {
      velocity[k] = 0.9 * velocity[k] + (1 - 0.9) * gradient[k];
      x[k] -= one.step_size * velocity[k];
    }
  }
  EXPECT_EQ(RunNamed("pd-momentum", one).last(), one.objective->Loss(x.data()));
  EXPECT_EQ(RunNamed("pd-lookahead", one).losses, RunNamed("pd-momentum", one).losses);
  // Two stages, up to B(1, 2) at tick 6: F(0, 2) at tick 4 reads x_0 - γ v_0 after B(0, 0).
  Ground two(SmallQuadratic(), {.stages = 2}, 0, 7);
  two.options.points = 1;
  std::vector<double> y = two.objective->Start(kSeed), v(y.size());
  const auto blocks = SplitBlocks(22, 2);
  const auto apply = [&](int s, const std::vector<double>& z) {
    const Block& block = blocks[static_cast<size_t>(s)];
    const auto gradient = two.BlockGradient(z, block, 0);
    for (size_t k = 0; k < gradient.size(); ++k) {
      const size_t at = static_cast<size_t>(block.begin) + k;
      v[at] = 0.9 * v[at] + (1 - 0.9) * gradient[k];
      y[at] -= two.step_size * v[at];
    }
  };
  const auto start = y;
  const auto with = [&](const std::vector<double>& first) {  // block 0 of `first`, block 1 of today
    std::vector<double> z = y;
    std::copy(first.begin(), first.begin() + 11, z.begin());
    return z;
  };
  const auto z0 = with(start);
  apply(1, z0);                 // B(1, 0), tick 2
  const auto z1 = with(start);  // F(1, 1), tick 3; F(0, 1) read the start at tick 2
  apply(0, z0);                 // B(0, 0), tick 3
  std::vector<double> ahead = y;
  for (size_t k = 0; k < 11; ++k) ahead[k] = y[k] - two.step_size * v[k];  // F(0, 2), tick 4
  apply(1, z1);                                                            // B(1, 1), tick 4
  const auto z2 = with(ahead);                                             // F(1, 2), tick 5
  apply(0, z1);                                                            // B(0, 1), tick 5
  apply(1, z2);                                                            // B(1, 2), tick 6
  EXPECT_EQ(RunNamed("pd-lookahead", two).last(), two.objective->Loss(y.data()));
}

}  // namespace
}  // namespace heddle
