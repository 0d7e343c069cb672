#include "lab/race.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/interval.h"
#include "lab/methods.h"
#include "lab/quadratic.h"

namespace heddle {
namespace {

RaceOptions SmallRace() {
  RaceOptions options;
  options.stages = {2, 4};
  options.methods = {"pd", "rpd", "local", "gpipe"};
  options.noises = {0, 0.2};
  options.tune_seeds = 0;
  options.trial.ticks = 400;
  options.trial.points = 5;
  return options;
}

std::vector<double> NumbersOf(const Race& race) {
  std::vector<double> numbers;
  for (const RaceEntry& entry : race.entries) {
    numbers.push_back(entry.step_size);
    for (const Interval& interval : entry.curve) {
      numbers.insert(numbers.end(), {interval.mean, interval.low, interval.high});
    }
  }
  return numbers;
}

TEST(RaceTest, ThreadsDoNotChangeTheResult) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.threads = 1;
  const Race one = RunRace(objective, options).value();
  options.threads = 5;
  EXPECT_EQ(NumbersOf(one), NumbersOf(RunRace(objective, options).value()));
  ASSERT_EQ(one.entries.size(), 16U);
  EXPECT_EQ(one.entries[5].method, "rpd");
  EXPECT_EQ(one.entries[5].stages, 4);
  EXPECT_EQ(one.entries[8].noise, 0.2);
}

// Whatever grid it starts with, the best step size has worse ones on both sides.
TEST(RaceTest, TheBestIsNeverAtAnEdge) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.step_sizes = 3;  // 1/L … 2/L: too large for PipeDream
  options.stages = {8};
  options.methods = {"pd", "gpipe", "pd-stage-steps"};
  options.noises = {0};
  const Race race = RunRace(objective, options).value();
  EXPECT_LT(race.entries[0].step_size, race.lowest_step / 2);
  EXPECT_GT(race.entries[0].tried, 3 + 2 * options.refine);
  PipelineClock clock;
  clock.stages = 8;
  const Schedule schedule = MakeSchedule(clock, options.trial.ticks);
  for (const RaceEntry& entry : race.entries) {
    for (const double factor : {std::exp2(-1.0 / 16), std::exp2(1.0 / 16)}) {
      double sum = 0;
      for (uint64_t seed = 0; seed < 5; ++seed) {
        const Trial trial{objective, schedule, options.trial, Noise(), 0, entry.step_size * factor,
                          seed};
        sum += FindMethod(entry.method).value()->run(trial).last();
      }
      EXPECT_GT(sum / 5, entry.final.mean) << entry.method << factor;
    }
  }
}

TEST(RaceTest, IntervalsAreThoseOfTheSeeds) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.stages = {2};
  options.methods = {"gpipe"};
  options.noises = {0.2};
  const RaceEntry entry = RunRace(objective, options).value().entries[0];
  PipelineClock clock;
  clock.stages = 2;
  const Schedule schedule = MakeSchedule(clock, options.trial.ticks);
  std::vector<double> losses;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Noise noise(seed, NoiseNeeded(clock, options.trial.ticks, objective));
    const Trial trial{objective, schedule, options.trial, noise, 0.2, entry.step_size, seed};
    losses.push_back(FindMethod("gpipe").value()->run(trial).last());
  }
  const Interval expected = MeanInterval(losses);
  EXPECT_DOUBLE_EQ(entry.final.mean, expected.mean);
  EXPECT_DOUBLE_EQ(entry.final.low, expected.low);
  EXPECT_LT(entry.final.low, entry.final.mean);
}

// Seeds are compared one by one: a method against itself is exactly 1, and what all seeds share
// does not widen the interval.
TEST(RaceTest, MethodsAreComparedSeedBySeed) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.methods = {"pd", "rpd-replay", "gpipe"};
  const Race race = RunRace(objective, options).value();
  for (size_t k = 0; k < race.entries.size(); k += 3) {
    for (size_t same : {k, k + 1}) {
      EXPECT_EQ(race.entries[same].against_first->mean, 1);
      EXPECT_EQ(race.entries[same].against_first->low, 1);
      EXPECT_EQ(race.entries[same].against_first->high, 1);
    }
    const RaceEntry& gpipe = race.entries[k + 2];
    EXPECT_GT(gpipe.against_first->low, 0);
    EXPECT_NEAR(gpipe.against_first->mean, gpipe.final.mean / race.entries[k].final.mean,
                0.5 * gpipe.against_first->mean);
  }
}

// The step size comes from the tuning seeds alone, the figures from the others alone.
TEST(RaceTest, TunedOnOtherSeedsThanJudgedOn) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.methods = {"pd", "gpipe"};
  options.noises = {0.5};
  options.seeds = 3;
  options.tune_seeds = 4;
  options.refine = 1;
  const Race race = RunRace(objective, options).value();
  RaceOptions tuning = options;
  tuning.first_seed = 3;
  tuning.seeds = 4;
  tuning.tune_seeds = 0;
  const Race tuned = RunRace(objective, tuning).value();
  PipelineClock clock;
  for (size_t k = 0; k < race.entries.size(); ++k) {
    const RaceEntry& entry = race.entries[k];
    EXPECT_EQ(entry.step_size, tuned.entries[k].step_size);
    EXPECT_NEAR(entry.tuned, tuned.entries[k].final.mean, 1e-12 * entry.tuned);
    clock.stages = entry.stages;
    const Schedule schedule = MakeSchedule(clock, options.trial.ticks);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Noise noise(seed, NoiseNeeded(clock, options.trial.ticks, objective));
      const Trial trial{objective, schedule, options.trial, noise, 0.5, entry.step_size, seed};
      EXPECT_EQ(entry.left[seed], FindMethod(entry.method).value()->run(trial).last());
    }
  }
}

TEST(RaceTest, PowersOfTwo) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.powers_of_two = true;
  options.refine = 0;
  const Race race = RunRace(objective, options).value();
  for (const RaceEntry& entry : race.entries) {
    EXPECT_EQ(std::log2(entry.step_size), std::round(std::log2(entry.step_size)));
  }
}

TEST(RaceTest, LocalMethodsCountTheirRounds) {
  const Quadratic objective(24, 0.01);
  const Race race = RunRace(objective, SmallRace()).value();
  for (const RaceEntry& entry : race.entries) {
    const int64_t round = 2 * entry.stages * 5 + 2 * (entry.stages - 1);
    EXPECT_EQ(entry.rounds, entry.method == "local" ? 400 / round : 0) << entry.method;
  }
}

TEST(RaceTest, MoreNoiseWantsSmallerSteps) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.methods = {"gpipe"};
  options.noises = {0, 2};
  const Race race = RunRace(objective, options).value();
  EXPECT_LT(race.entries[2].step_size, race.entries[0].step_size);
  EXPECT_GT(race.entries[2].final.mean, race.entries[0].final.mean);
}

// With a target the step size is the one that comes down to it first, and the times are those of
// the seeds' curves.
TEST(RaceTest, ATargetIsReachedFirst) {
  const Quadratic objective(24, 0.01);
  RaceOptions options = SmallRace();
  options.methods = {"pd", "gpipe"};
  options.noises = {0.2};
  options.stages = {4};
  options.trial.points = 40;
  options.refine = 0;
  const Race free = RunRace(objective, options).value();
  EXPECT_EQ(free.entries[0].ticks_to_target, std::nullopt);
  options.target = 4 * free.entries[1].final.mean;
  const Race race = RunRace(objective, options).value();
  for (const RaceEntry& entry : race.entries) {
    EXPECT_EQ(entry.reached, options.seeds);
    ASSERT_TRUE(entry.ticks_to_target.has_value());
    PipelineClock clock;
    clock.stages = 4;
    const Schedule schedule = MakeSchedule(clock, options.trial.ticks);
    for (const double factor : {1.0, std::sqrt(0.5), std::sqrt(2.0)}) {
      std::vector<double> ticks;
      for (uint64_t seed = 0; seed < 5; ++seed) {
        const Noise noise(seed, NoiseNeeded(clock, options.trial.ticks, objective));
        const Trial trial{objective, schedule, options.trial, noise, 0.2, entry.step_size * factor,
                          seed};
        const Curve curve = FindMethod(entry.method).value()->run(trial);
        ticks.push_back(TicksToReach(options.trial, curve, *options.target));
      }
      const double mean = MeanInterval(ticks).mean;
      EXPECT_GE(mean, entry.ticks_to_target->mean - 1e-9) << entry.method << factor;
      if (factor != 1) continue;
      EXPECT_NEAR(entry.ticks_to_target->mean, mean, 1e-9);
    }
  }
  EXPECT_EQ(race.entries[0].ticks_against_first->mean, 1);
  EXPECT_GT(race.entries[1].ticks_against_first->mean, 1);
  options.target = 0;  // never reached: tuned for the loss at the end
  const Race never = RunRace(objective, options).value();
  EXPECT_EQ(never.entries[0].reached, 0);
  EXPECT_EQ(never.entries[0].ticks_to_target, std::nullopt);
  EXPECT_EQ(never.entries[0].step_size, free.entries[0].step_size);
}

TEST(RaceTest, RefusesWhatMakesNoSense) {
  const Quadratic objective(24, 0.01);
  const auto refused = [&](auto change) {
    RaceOptions options = SmallRace();
    change(options);
    const auto race = RunRace(objective, options);
    EXPECT_FALSE(race.ok());
    return race.ok() ? "" : race.error().where;
  };
  EXPECT_EQ(refused([](RaceOptions& o) { o.seeds = 1; }), "--seeds");
  EXPECT_EQ(refused([](RaceOptions& o) { o.tune_seeds = -1; }), "--tune-seeds");
  EXPECT_EQ(refused([](RaceOptions& o) { o.stages = {25}; }), "--stages");
  EXPECT_EQ(refused([](RaceOptions& o) { o.stages = {0}; }), "--stages");
  EXPECT_EQ(refused([](RaceOptions& o) { o.noises = {-1}; }), "--noise");
  EXPECT_EQ(refused([](RaceOptions& o) { o.trial.ticks = 0; }), "--ticks");
  EXPECT_EQ(refused([](RaceOptions& o) { o.trial.ticks = 10; }), "--ticks");  // nothing moves
  EXPECT_EQ(refused([](RaceOptions& o) { o.trial.every = 0; }), "--every");
  EXPECT_EQ(refused([](RaceOptions& o) { o.trial.microbatches = -1; }), "--microbatches");
  EXPECT_EQ(refused([](RaceOptions& o) {
              o.trial.microbatches = 3;  // fewer than the stages
              o.methods = {"gpipe", "2bw"};
            }),
            "--microbatches");
  EXPECT_EQ(refused([](RaceOptions& o) { o.clock.latency = -1; }), "--latency");
  EXPECT_EQ(refused([](RaceOptions& o) { o.clock.backward = 0; }), "--backward");
  EXPECT_EQ(refused([](RaceOptions& o) { o.methods = {"nope"}; }), "--methods");
  EXPECT_EQ(refused([](RaceOptions& o) { o.target = -1; }), "--target");
  EXPECT_EQ(refused([](RaceOptions& o) {
              o.trial.ticks = 9000000;
              o.seeds = 100;
            }),
            "--ticks");
}

TEST(IntervalTest, StudentQuantilesAreTheTables) {
  EXPECT_NEAR(StudentQuantile(1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(2), 4.3027, 1e-4);
  EXPECT_NEAR(StudentQuantile(3), 3.1824, 1e-4);
  EXPECT_NEAR(StudentQuantile(4), 2.7764, 1e-4);
  EXPECT_NEAR(StudentQuantile(9), 2.2622, 1e-4);
  EXPECT_NEAR(StudentQuantile(30), 2.0423, 1e-4);
  EXPECT_NEAR(StudentQuantile(1000), 1.9623, 1e-4);
}

TEST(IntervalTest, MeansAndSlopes) {
  const Interval mean = MeanInterval(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(mean.mean, 2);
  EXPECT_NEAR(mean.high, 2 + 4.3027 / std::sqrt(3), 1e-4);
  EXPECT_NEAR(mean.low, 2 - 4.3027 / std::sqrt(3), 1e-4);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(MeanInterval(std::vector<double>{1, infinity}).mean, infinity);
  const Interval slope =
      FitSlope(std::vector<double>{0, 1, 2, 3}, std::vector<double>{1, 3, 5.5, 7});
  EXPECT_NEAR(slope.mean, 2.05, 1e-12);
  // Residuals -0.05, -0.1, 0.35, -0.2: s² = 0.175 / 2, over Σ(x - mean)² = 5.
  EXPECT_NEAR(slope.high - slope.mean, 4.3027 * std::sqrt(0.175 / 2 / 5), 1e-4);
}

}  // namespace
}  // namespace heddle
