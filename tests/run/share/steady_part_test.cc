#include "run/share/steady_part.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace heddle {
namespace {

StepEnds EndsOf(const std::vector<double>& steps, double start = 1) {
  StepEnds ends = {std::llround(start * 1e9)};
  for (const double step : steps) ends.push_back(ends.back() + std::llround(step * 1e9));
  return ends;
}

// `cold` steps of `cold_seconds`, then `warm` ones around `mean`, each like the one before it.
std::vector<double> Steps(int cold, double cold_seconds, int warm, double mean, double deviation,
                          uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> steps(static_cast<size_t>(cold), cold_seconds);
  double off = 0;
  for (int k = 0; k < warm; ++k) {
    off = 0.5 * off + std::sqrt(0.75) * deviation * normal(random);
    steps.push_back(mean + off);
  }
  return steps;
}

TEST(SteadyPart, WarmUpIsWhereTheRestIsSteady) {
  EXPECT_EQ(WarmUpOf(std::vector<double>{9, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), 3U);
  EXPECT_EQ(WarmUpOf(std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1}), 0U);
  EXPECT_LE(WarmUpOf(std::vector<double>{9, 9, 9, 9, 9, 9, 1, 1}), 2U) << "a quarter at most";
  EXPECT_EQ(WarmUpOf({}), 0U);
}

TEST(SteadyPart, SharedStepsAreThoseInWhichAllAreThere) {
  const std::vector<StepEnds> shared = {{10, 20, 30, 40, 50, 60}, {25, 35, 45}};
  const SteadyPart part = SteadyPartOf({}, shared);
  // From 25, when the second job's first step ended, to 45.
  EXPECT_EQ(part.shared_steps[0].first, 2U);
  EXPECT_EQ(part.shared_steps[0].last, 3U);
  EXPECT_EQ(part.shared_steps[1].count(), 2U);
  EXPECT_EQ(part.turns(), 1);
  const std::vector<StepEnds> apart = {{10, 20}, {30, 40}};
  EXPECT_EQ(SteadyPartOf({}, apart).turns(), 0);
  const std::vector<StepEnds> one_failed = {{10, 20}, {}};
  EXPECT_EQ(SteadyPartOf({}, one_failed).turns(), 0);
}

// Two jobs that start up for as long as forty of their steps, alone one after the other and shared
// at the same time: by their whole time the gain was 3, which nothing can be.
TEST(SteadyPart, StartUpIsNoGain) {
  const std::vector<StepEnds> alone = {EndsOf(Steps(1, 0.4, 40, 0.01, 0, 1)),
                                       EndsOf(Steps(1, 0.4, 40, 0.01, 0, 2))};
  const std::vector<StepEnds> shared = {EndsOf(Steps(1, 0.02, 40, 0.0125, 0, 3)),
                                        EndsOf(Steps(1, 0.02, 40, 0.0125, 0, 4))};
  const SteadyFigures figures = FiguresOf(SteadyPartOf(alone, shared), 2);
  ASSERT_TRUE(figures.gain);
  EXPECT_NEAR(figures.gain->mean, 1.6, 1e-6);
  EXPECT_NEAR(figures.slowdown[0]->mean, 1.25, 1e-6);
  EXPECT_NEAR(figures.period->mean, 0.0125, 1e-9);
  EXPECT_FALSE(figures.impossible);
}

TEST(SteadyPart, AGainIsSecondsOfWorkInASecondAlsoOfUnequalTurns) {
  // The second job has three turns while the first has one.
  const std::vector<StepEnds> alone = {EndsOf(Steps(0, 0, 40, 0.03, 0, 1)),
                                       EndsOf(Steps(0, 0, 120, 0.01, 0, 2))};
  const std::vector<StepEnds> shared = {EndsOf(Steps(0, 0, 40, 0.04, 0, 3)),
                                        EndsOf(Steps(0, 0, 120, 0.04 / 3, 0, 4))};
  const SteadyFigures figures = FiguresOf(SteadyPartOf(alone, shared), 2);
  EXPECT_NEAR(figures.gain->mean, 0.75 + 0.75, 1e-6);
}

TEST(SteadyPart, NothingAboveTheLimitIsStated) {
  // Alone on a machine that was busy: 2.4 by what was measured.
  const std::vector<StepEnds> slowed = {EndsOf(Steps(0, 0, 50, 0.012, 1e-4, 1)),
                                        EndsOf(Steps(0, 0, 50, 0.012, 1e-4, 2))};
  const std::vector<StepEnds> shared = {EndsOf(Steps(0, 0, 50, 0.01, 1e-4, 3)),
                                        EndsOf(Steps(0, 0, 50, 0.01, 1e-4, 4))};
  const SteadyFigures figures = FiguresOf(SteadyPartOf(slowed, shared), 2);
  EXPECT_FALSE(figures.gain);
  EXPECT_TRUE(figures.impossible);
  // An interval that reaches above the limit ends there.
  const std::vector<StepEnds> about = {EndsOf(Steps(0, 0, 50, 0.0099, 1e-3, 1)),
                                       EndsOf(Steps(0, 0, 50, 0.0099, 1e-3, 2))};
  const SteadyFigures cut = FiguresOf(SteadyPartOf(about, shared), 2);
  ASSERT_TRUE(cut.gain);
  EXPECT_EQ(cut.gain->high, 2);
  EXPECT_LE(cut.gain->mean, 2);
  EXPECT_GE(cut.slowdown[0]->low, 1);
}

TEST(SteadyPart, FewStepsSayLittleAndFewerNothing) {
  const std::vector<StepEnds> alone = {EndsOf({1, 2, 1, 2, 1}), EndsOf({1, 1, 1, 1, 1})};
  const std::vector<StepEnds> shared = {EndsOf({2, 2, 2, 2, 2}), EndsOf({2, 2, 2, 2, 2})};
  const SteadyPart part = SteadyPartOf(alone, shared);
  EXPECT_LT(part.turns(), kEnoughTurns);
  EXPECT_TRUE(FiguresOf(part, 2).gain);
  const std::vector<StepEnds> two = {EndsOf({2, 2}), EndsOf({2, 2})};
  EXPECT_FALSE(FiguresOf(SteadyPartOf(two, two), 2).gain);
  EXPECT_FALSE(FiguresOf(SteadyPartOf({}, shared), 2).gain) << "nothing to compare with";
  EXPECT_TRUE(FiguresOf(SteadyPartOf({}, shared), 2).period);
}

// Of 400 pairs of jobs whose steps hang on those before, with outliers and start-up, the interval
// has the true gain in most; and none has a bound above 2.
TEST(SteadyPart, IntervalsHoldWhatTheySay) {
  constexpr int kPairs = 400;
  constexpr double kAlone[] = {0.010, 0.008}, kPeriod = 0.0125;
  int within = 0;
  for (uint32_t pair = 0; pair < kPairs; ++pair) {
    const auto steps = [&](double mean, uint32_t seed) {
      return EndsOf(Steps(3, 5 * mean, 60, mean, 0.08 * mean, 10 * pair + seed));
    };
    const std::vector<StepEnds> alone = {steps(kAlone[0], 0), steps(kAlone[1], 1)};
    const std::vector<StepEnds> shared = {steps(kPeriod, 2), steps(kPeriod, 3)};
    const SteadyFigures figures = FiguresOf(SteadyPartOf(alone, shared), 2);
    ASSERT_TRUE(figures.gain);
    EXPECT_LE(figures.gain->high, 2);
    const double truth = (kAlone[0] + kAlone[1]) / kPeriod;
    within += figures.gain->low <= truth && truth <= figures.gain->high ? 1 : 0;
  }
  EXPECT_GE(within, kPairs * 88 / 100) << "of steps that hang together by half";
  EXPECT_LE(within, kPairs * 99 / 100) << "an interval that always holds says nothing";
}

}  // namespace
}  // namespace heddle
