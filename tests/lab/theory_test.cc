#include "lab/theory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lab/pipedream.h"
#include "lab/quadratic.h"

namespace heddle {
namespace {

const BoundInputs kInputs{.stages = 4, .smoothness = 2, .gradient = 3, .gap = 5, .steps = 1000};

TEST(TheoryTest, TermsByHand) {
  const Bound bound = BoundAt(kInputs, 0.1, Accounting::kByDelay);
  EXPECT_DOUBLE_EQ(bound.descent, 2 * 4 * 5 / (0.1 * 1000));
  EXPECT_DOUBLE_EQ(bound.noise, 0.1 * 4 * 2 * 9);
  EXPECT_NEAR(bound.stale, 0.01 * 4 * 14 * 14 * 9, 1e-9);
  EXPECT_DOUBLE_EQ(bound.total(), bound.descent + bound.noise + bound.stale);
  // δ²/S + δ(1 - 1/S) = 49 + 10.5 for S = 4.
  EXPECT_NEAR(BoundAt(kInputs, 0.1, Accounting::kConstant).stale, 0.01 * 4 * 59.5 * 9, 1e-9);
}

TEST(TheoryTest, TunedSteps) {
  EXPECT_DOUBLE_EQ(TunedStep(kInputs), std::sqrt(2 * 5.0 / (2 * 9 * 1000)));
  BoundInputs few = kInputs;
  few.steps = 1;
  EXPECT_DOUBLE_EQ(TunedStep(few), 0.5);  // 1/L
  EXPECT_DOUBLE_EQ(TunedStepWithStale(kInputs, Accounting::kByDelay),
                   std::cbrt(4 * 5.0 / (4 * 9 * 196.0 * 1000)));
  EXPECT_LT(TunedStepWithStale(kInputs, Accounting::kByDelay),
            TunedStepWithStale(kInputs, Accounting::kConstant));
  BoundInputs one = kInputs;
  one.stages = 1;
  EXPECT_DOUBLE_EQ(TunedStepWithStale(one, Accounting::kByDelay), TunedStep(one));
}

// Where the first and last terms alone balance, no other step makes their sum smaller.
TEST(TheoryTest, TheStepWithStaleBalances) {
  const auto sum = [](double step) {
    const Bound bound = BoundAt(kInputs, step, Accounting::kByDelay);
    return bound.descent + bound.stale;
  };
  const double best = TunedStepWithStale(kInputs, Accounting::kByDelay);
  EXPECT_LT(sum(best), sum(best * 1.01));
  EXPECT_LT(sum(best), sum(best / 1.01));
}

TEST(TheoryTest, CountsHaveTheirOrders) {
  EXPECT_NEAR(StaleCount(128, Accounting::kByDelay) / StaleCount(64, Accounting::kByDelay), 16,
              0.3);
  for (const Accounting accounting : {Accounting::kConstant, Accounting::kUniform}) {
    EXPECT_NEAR(StaleCount(128, accounting) / StaleCount(64, accounting), 8, 0.2);
  }
  EXPECT_NEAR(static_cast<double>(PipeDreamCount(128)) / static_cast<double>(PipeDreamCount(64)), 8,
              0.2);
}

// PipeDream's by hand for S = 4, n = 3, 3, 2, 2; the two of Randomized PipeDream against counting.
TEST(TheoryTest, StaleReadsAreCounted) {
  EXPECT_EQ(PipeDreamCount(4), 26);
  EXPECT_EQ(PipeDreamCount(8), 252);
  EXPECT_DOUBLE_EQ(StaleCount(8, Accounting::kConstant), 502.5);
  EXPECT_DOUBLE_EQ(StaleCount(8, Accounting::kUniform), 177.5);
  for (const int stages : {1, 2, 4, 8, 16}) {
    for (const Accounting accounting : {Accounting::kConstant, Accounting::kUniform}) {
      // Windows of neighbouring updates overlap, so means of separate runs give the error.
      std::vector<double> means;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        means.push_back(CountedReads(stages, accounting, 2000, seed));
      }
      const Interval counted = MeanInterval(means);
      const double expected = StaleCount(stages, accounting);
      const double reach = 1.5 * (counted.high - counted.mean) + 1e-9;
      EXPECT_NEAR(counted.mean, expected, reach) << stages;
      EXPECT_LT(reach, 0.1 * expected + 1e-6) << stages;
    }
  }
}

TEST(TheoryTest, MeasuredStalenessKeepsTheBound) {
  const Quadratic quadratic(64, 0.01);
  StalenessOptions options;
  options.stages = {1, 2, 4, 8};
  options.ticks = 400;
  const StalenessStudy study = MeasureStaleness(quadratic, options).value();
  EXPECT_NEAR(study.step_size, std::sin(3.14159265358979 / 30) / 4.01, 1e-9);
  for (const StalenessFit* fit : {&study.pipedream, &study.randomized}) {
    ASSERT_EQ(fit->rows.size(), 4U);
    EXPECT_EQ(fit->rows[0].distance.mean, 0);
    for (const StalenessRow& row : fit->rows) {
      const double bound =
          study.step_size * study.step_size * row.largest *
          (fit == &study.pipedream ? static_cast<double>(PipeDreamCount(row.stages))
                                   : StaleCount(row.stages, Accounting::kUniform));
      EXPECT_LE(row.distance.mean, bound) << row.stages;
      EXPECT_NEAR(row.count.mean,
                  row.distance.mean / (study.step_size * study.step_size * row.gradient.mean),
                  0.2 * row.count.mean);
    }
    EXPECT_GT(fit->count_exponent.mean, 1);
    EXPECT_LT(fit->count_exponent.mean, 4);
    EXPECT_LT(fit->count_exponent.low, fit->count_exponent.mean);
  }
  options.threads = 1;
  EXPECT_EQ(MeasureStaleness(quadratic, options).value().pipedream.count_exponent.mean,
            study.pipedream.count_exponent.mean);
}

// The first updates of PipeDream on two stages by hand: B(1, 0) at tick 2 reads what it changes;
// B(0, 0) at tick 3 finds block 1 moved by γ ∇_1.
TEST(TheoryTest, DistanceByHand) {
  const Quadratic quadratic(8, 0.01);
  const Schedule schedule = MakeSchedule({.stages = 2}, 4);
  TrialOptions options;
  options.ticks = 4;
  options.points = 1;
  const Noise none;
  const Trial trial{quadratic, schedule, options, none, 0, 0.05, 3};
  Staleness staleness;
  RunPipeDream(trial, {.staleness = &staleness});
  const std::vector<double> x = quadratic.Start(3);
  std::vector<double> gradient(8);
  Pass pass = quadratic.MakePass();
  quadratic.Gradient(x.data(), pass, gradient.data());
  double first = 0, second = 0;
  for (size_t k = 0; k < 4; ++k) {
    first += gradient[k] * gradient[k];
    second += gradient[4 + k] * gradient[4 + k];
  }
  EXPECT_EQ(staleness.updates, 2);
  EXPECT_NEAR(staleness.distance, 0.05 * 0.05 * second, 1e-12);
  EXPECT_NEAR(staleness.gradient, first + second, 1e-12);
  EXPECT_NEAR(staleness.largest, std::max(first, second), 1e-12);
}

TEST(TheoryTest, AnExponentNeedsThreeNumbersOfStages) {
  const Quadratic quadratic(8, 0.01);
  StalenessOptions options;
  options.stages = {1, 2, 4};
  options.ticks = 64;
  const StalenessStudy study = MeasureStaleness(quadratic, options).value();
  EXPECT_EQ(study.pipedream.count_exponent.mean, 0);
}

TEST(TheoryTest, RefusesWhatMakesNoSense) {
  const Quadratic quadratic(8, 0.01);
  const auto refused = [&](StalenessOptions options) {
    const auto study = MeasureStaleness(quadratic, options);
    EXPECT_FALSE(study.ok());
    return study.ok() ? "" : study.error().where;
  };
  EXPECT_EQ(refused({.stages = {9}}), "--stages");
  EXPECT_EQ(refused({.stages = {2}, .ticks = 3}), "--ticks");
  EXPECT_EQ(refused({.stages = {2}, .seeds = 1}), "--seeds");
  EXPECT_EQ(refused({.stages = {2}, .noise = -1}), "--step-size, --noise");
  EXPECT_EQ(refused({.stages = {2}, .step_size = 100}), "--step-size");
}

}  // namespace
}  // namespace heddle
