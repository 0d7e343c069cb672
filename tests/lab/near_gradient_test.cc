// Steps in one go, of objectives whose gradients need a block and its neighbours only: every method
// passes the same losses, bit for bit, as with passes.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ground.h"
#include "lab/block_draws.h"

namespace heddle {
namespace {

// The same function, in passes only.
class QuadraticInPasses : public Quadratic {
 public:
  using Quadratic::Quadratic;
  const heddle::NearGradient* near() const override { return nullptr; }
};

constexpr double kShift = 0.01;

struct Case {
  int64_t dimension;
  PipelineClock clock;
  double sigma;
};

const Case kCases[] = {
    {22, {.stages = 1}, 0},   {22, {.stages = 3}, 0},
    {22, {.stages = 3}, 0.2}, {22, {.stages = 22}, 0.2},  // a block is one element
    {37, {.stages = 8}, 0},   {37, {.stages = 8}, 0.2},
    {64, {.stages = 2}, 0.2}, {37, {.stages = 5, .backward = 2, .latency = 3}, 0.2},
};

TEST(NearGradientTest, EveryMethodPassesTheSameLosses) {
  for (const Case& one : kCases) {
    const Ground near(std::make_unique<Quadratic>(one.dimension, kShift), one.clock, one.sigma);
    const Ground far(std::make_unique<QuadraticInPasses>(one.dimension, kShift), one.clock,
                     one.sigma);
    ASSERT_NE(near.objective->near(), nullptr);
    for (const Method& method : Methods()) {
      const Curve expected = method.run(far.trial());
      EXPECT_EQ(method.run(near.trial()).losses, expected.losses)
          << method.name << " on " << one.clock.stages << " stages, noise " << one.sigma;
      EXPECT_NE(expected.losses.front(), expected.losses.back()) << method.name;
    }
  }
}

TEST(NearGradientTest, DrawsMadeBeforeAreThoseMadeInATrial) {
  const Ground ground(SmallQuadratic(), {.stages = 8}, 0.2);
  for (const char* name : {"rpd", "rpd-maximal", "rpd-zero"}) {
    const Method& method = *FindMethod(name).value();
    const NearDraws own(ground.schedule, method.draws.value(), kSeed);
    const NearDraws other(ground.schedule, DelayMode::kUniform, kSeed + 1);
    Trial trial = ground.trial();
    const Curve made = method.run(trial);
    trial.draws = &own;
    EXPECT_EQ(method.run(trial).losses, made.losses) << name;
    trial.draws = &other;  // another seed's
    EXPECT_EQ(method.run(trial).losses != made.losses, std::string(name) == "rpd") << name;
  }
}

// A version is what a block was after so many updates of its own: counted again here.
TEST(NearGradientTest, VersionsAreWhatTheDelaysSay) {
  const Schedule schedule = MakeSchedule({.stages = 6}, 400);
  const int64_t depth = SteadyDelays(schedule.clock).most;
  const NearDraws draws(schedule, DelayMode::kUniform, kSeed);
  ASSERT_EQ(static_cast<int64_t>(draws.draws.size()), schedule.updates);
  StaleChance chance(kSeed, 6, DelayMode::kUniform, depth);
  std::vector<std::vector<int32_t>> versions = {std::vector<int32_t>(6)};  // before each update
  int64_t most = 1;
  for (int64_t k = 0; k < schedule.updates; ++k) {
    const NearDraw& draw = draws.draws[static_cast<size_t>(k)];
    ASSERT_EQ(draw.block, chance.Chosen(k));
    for (int j = std::max(0, draw.block - 1); j <= std::min(5, draw.block + 1); ++j) {
      const auto at = static_cast<size_t>(j);
      const auto then = static_cast<size_t>(k - chance.Delay(k, draw.block, j));
      EXPECT_EQ(draw.version[static_cast<size_t>(j - draw.block + 1)], versions[then][at]);
      most = std::max<int64_t>(most, versions.back()[at] - versions[then][at] + 1);
    }
    versions.push_back(versions.back());
    ++versions.back()[static_cast<size_t>(draw.block)];
  }
  EXPECT_EQ(draws.versions, most);
}

}  // namespace
}  // namespace heddle
