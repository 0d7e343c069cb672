// Randomized PipeDream, and the history it reads.

#include "lab/randomized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ground.h"

namespace heddle {
namespace {

TEST(RandomizedTest, ReplayEqualsPipeDreamToTheLastBit) {
  for (const auto& make : {&SmallQuadratic, &SmallLogistic}) {
    for (const int stages : {1, 2, 3, 8, 11}) {
      for (const double sigma : {0.0, 0.2}) {
        const Ground ground(make(), {.stages = stages}, sigma);
        const Curve pd = RunNamed("pd", ground);
        EXPECT_EQ(RunNamed("rpd-replay", ground).losses, pd.losses) << stages;
        EXPECT_FALSE(pd.diverged);
        EXPECT_NE(pd.losses[0], pd.losses[1]);
        EXPECT_EQ(RunNamed("rpd", ground).losses == pd.losses, stages == 1);
      }
    }
  }
  const Ground slow(SmallQuadratic(), {.stages = 5, .backward = 2, .latency = 3}, 0.2);
  EXPECT_EQ(RunNamed("rpd-replay", slow).losses, RunNamed("pd", slow).losses);
}

TEST(RandomizedTest, WithoutDelayOneStageIsSgd) {
  // One block, no delay: RPD is SGD whatever the mode, since δ = 0.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.3);
  for (const char* name : {"rpd", "rpd-maximal", "rpd-zero"}) {
    EXPECT_EQ(RunNamed(name, one).losses, SgdReference(one, 2, 1).losses) << name;
  }
}

// The algorithm as it is written down, with every x kept: δ = 7 for three stages.
TEST(RandomizedTest, RandomizedPipeDreamAsWritten) {
  for (const char* name : {"rpd-maximal", "rpd-zero", "rpd"}) {
    const Ground ground(SmallLogistic(), {.stages = 3}, 0.2);
    const Ground quiet(SmallLogistic(), {.stages = 3}, 0);
    const auto blocks = SplitBlocks(11, 3);       // 3, 4 and 4 elements
    const RandomStream chance(kSeed, "lab.rpd");  // a word for the choice, three for the ages
    std::vector<std::vector<double>> x = {ground.objective->Start(kSeed)};
    for (uint64_t k = 0; k < static_cast<uint64_t>(ground.schedule.updates); ++k) {
      const uint64_t most = std::min<uint64_t>(7, k);
      std::vector<double> z;
      const auto words = chance.Words(k);
      const size_t chosen = (uint64_t{words[0]} * 3) >> 32;
      for (size_t j = 0; j < 3; ++j) {
        const std::string mode = name;
        const uint64_t word = words[1 + (j + 4 - chosen) % 3];  // the one before it is first
        const uint64_t uniform = (word * (most + 1)) >> 32;
        const uint64_t delay = mode == "rpd" ? uniform : mode == "rpd-maximal" ? most : 0;
        const std::vector<double>& then = x[k - delay];
        z.insert(z.end(), then.begin() + blocks[j].begin, then.begin() + blocks[j].end);
      }
      const Block& block = blocks[chosen];
      const auto gradient = quiet.BlockGradient(z, block, 0);
      std::vector<double> next = x.back();
      for (size_t e = 0; e < gradient.size(); ++e) {
        const double noise = static_cast<double>(*ground.noise.At(static_cast<int64_t>(4 * k + e)));
        next[static_cast<size_t>(block.begin) + e] -=
            ground.step_size * (gradient[e] + ground.sigma * noise);
      }
      x.push_back(next);
    }
    EXPECT_EQ(RunNamed(name, ground).last(), ground.objective->Loss(x.back().data())) << name;
  }
}

TEST(RandomizedTest, LargerDelaysAreFurtherOff) {
  const Ground ground(std::make_unique<Quadratic>(64, 0.01), {.stages = 8}, 0);
  Staleness uniform, maximal, zero;
  RunRandomized(ground.trial(), DelayMode::kUniform, &uniform);
  RunRandomized(ground.trial(), DelayMode::kMaximal, &maximal);
  RunRandomized(ground.trial(), DelayMode::kZero, &zero);
  EXPECT_EQ(zero.distance, 0);
  EXPECT_LT(uniform.distance, maximal.distance);
  EXPECT_GT(uniform.distance, 0);
  EXPECT_EQ(uniform.updates, ground.schedule.updates);
}

TEST(RandomizedTest, HistoryKeepsWhatWas) {
  const std::vector<Block> blocks = SplitBlocks(7, 3);
  std::vector<double> x = {0, 1, 2, 3, 4, 5, 6};
  const int64_t depth = 6;
  BlockHistory history(x, blocks, depth);
  std::vector<std::vector<double>> all = {x};
  for (int step = 0; step < 60; ++step) {
    const int chosen = (step * step + step / 7) % 3;
    const Block& block = blocks[static_cast<size_t>(chosen)];
    for (int64_t k = block.begin; k < block.end; ++k) x[static_cast<size_t>(k)] += 10 + step;
    history.Push(chosen, x.data() + block.begin);
    all.push_back(x);
    for (int64_t delay = 0; delay <= std::min<int64_t>(depth, step + 1); ++delay) {
      const std::vector<double>& then = all[all.size() - 1 - static_cast<size_t>(delay)];
      for (int j = 0; j < 3; ++j) {
        const Block& read = blocks[static_cast<size_t>(j)];
        const double* values = history.Read(j, delay);
        for (int64_t k = 0; k < read.size(); ++k) {
          ASSERT_EQ(values[k], then[static_cast<size_t>(read.begin + k)]) << step << " " << delay;
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle
