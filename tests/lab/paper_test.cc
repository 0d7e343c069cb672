// What the authors of Randomized PipeDream found, from data made here by their description: ratios
// to PipeDream of what is left above the lowest loss. Their figures, or those of an independent run
// of their setting, are the expectation; the two samples must agree within 2.6 standard errors.

#include <gtest/gtest.h>

#include <cmath>

#include "lab/map.h"
#include "lab/problems.h"
#include "lab/race.h"

namespace heddle {
namespace {

struct Expected {
  double ratio;
  double error;  // of its logarithm
};

double ErrorOf(const RaceEntry& entry) {
  return std::log(entry.against_first->high / entry.against_first->low) / 2 /
         StudentQuantile(static_cast<int>(entry.left.size()) - 1);
}

void ExpectAgrees(const RaceEntry& entry, const Expected& expected) {
  ASSERT_TRUE(entry.against_first.has_value()) << entry.method;
  const double error = ErrorOf(entry);
  const double apart = std::log(entry.against_first->mean / expected.ratio);
  EXPECT_LT(std::abs(apart), 2.6 * std::hypot(error, expected.error))
      << entry.method << " on " << entry.stages << " stages: " << entry.against_first->mean
      << " instead of " << expected.ratio;
}

// A figure of ten seeds without an interval: it varies as ours do.
Expected TenSeeds(double ratio, const RaceEntry& ours) {
  return {ratio, ErrorOf(ours) * std::sqrt(static_cast<double>(ours.left.size()) / 10)};
}

RaceOptions PaperRace() {
  RaceOptions options;
  options.seeds = 10;
  options.tune_seeds = 10;
  options.powers_of_two = true;
  options.step_sizes = 8;
  options.refine = 0;
  options.trial.points = 2;
  return options;
}

Race RunFresh(const std::string& name, const ObjectiveOptions& problem,
              const RaceOptions& options) {
  const DataBySeed data =
      DataBySeed::Make(name, problem, 0, options.seeds + options.tune_seeds, 2).value();
  const ObjectiveOf objective_of = [&](uint64_t seed) -> const Objective& { return data.Of(seed); };
  return RunRace(objective_of, options).value();
}

// 50 rows of 512 features, one at a time, H = 5, 3180 ticks, each method at the best of step sizes
// a factor 2^(1/4) apart around the best power of two: powers of two alone would race the luck of
// where they lie.
RaceOptions LogisticOptions(const std::vector<int>& stages, const std::vector<double>& noises) {
  RaceOptions options = PaperRace();
  options.methods = {"pd", "local"};
  options.noises = noises;
  options.trial.ticks = 3180;
  options.stages = stages;
  options.refine = 2;
  return options;
}

Race LogisticRace(const RaceOptions& options, int rows = 50) {
  return RunFresh("logistic", MapProblem("logistic", 512, rows / 512.0), options);
}

// σ = 0.5. Intervals of ten seeds: S = 2 1.12 [.80, 1.56], 4 1.04, 8 .49 [.42, .56], 16 .19 [.15,
// .24], 32 .079 [.064, .099]; an error is an interval's half width over 2.26.
TEST(PaperTest, LogisticLocalIsAheadWithNoiseAndManyStages) {
  const Race race = LogisticRace(LogisticOptions({2, 4, 8, 16, 32}, {0.5}));
  ExpectAgrees(race.entries[1], {1.12, std::log(1.56 / 0.80) / 2 / 2.26});
  ExpectAgrees(race.entries[3], TenSeeds(1.04, race.entries[3]));
  ExpectAgrees(race.entries[5], {0.49, std::log(0.56 / 0.42) / 2 / 2.26});
  ExpectAgrees(race.entries[7], {0.19, std::log(0.24 / 0.15) / 2 / 2.26});
  ExpectAgrees(race.entries[9], {0.079, std::log(0.099 / 0.064) / 2 / 2.26});
  EXPECT_EQ(race.entries[7].verdict, Standing::kAhead);
  EXPECT_EQ(race.entries[9].verdict, Standing::kAhead);
}

// On 32 stages, by noise: 0 2.8, .1 .47, .2 .15, without intervals, so that none are granted. At
// .05 theirs is 1.03, which neither we have nor their own procedure (docs/async.md): there it is
// that of bench/async/authors_race.py, 1.27 [1.13, 1.43].
TEST(PaperTest, LogisticNoiseTurnsTheRace) {
  const Race race = LogisticRace(LogisticOptions({32}, {0, 0.05, 0.1, 0.2}));
  ExpectAgrees(race.entries[1], {2.8, 0});
  ExpectAgrees(race.entries[3], {1.27, std::log(1.43 / 1.13) / 2 / 2.26});
  ExpectAgrees(race.entries[5], {0.47, 0});
  ExpectAgrees(race.entries[7], {0.15, 0});
  EXPECT_EQ(race.entries[1].verdict, Standing::kBehind);
  EXPECT_EQ(race.entries[3].verdict, Standing::kBehind);
  EXPECT_EQ(race.entries[7].verdict, Standing::kAhead);
}

// On 32 stages at σ = 0.5, by H: 1 1.39, 2 .23.
TEST(PaperTest, LogisticOneLocalStepIsTooFew) {
  RaceOptions options = LogisticOptions({32}, {0.5});
  options.trial.every = 1;
  const Race one = LogisticRace(options);
  ExpectAgrees(one.entries[1], TenSeeds(1.39, one.entries[1]));
  options.trial.every = 2;
  const Race two = LogisticRace(options);
  ExpectAgrees(two.entries[1], TenSeeds(0.23, two.entries[1]));
  EXPECT_EQ(two.entries[1].verdict, Standing::kAhead);
}

// With 200 rows instead of 50 nobody is ahead.
TEST(PaperTest, LogisticMoreRowsAreATie) {
  const Race race = LogisticRace(LogisticOptions({32}, {0.5}), 200);
  ExpectAgrees(race.entries[1], TenSeeds(1, race.entries[1]));
  EXPECT_NE(race.entries[1].verdict, Standing::kAhead);
}

// With 5000 rows of 512 features PipeDream is ahead by a tenth: 1.05 there, here 1.083
// [1.069, 1.096] with ten seeds, which is not the same, and 1.10 [1.08, 1.13] by their procedure
// (docs/async.md), which is. Four seeds tell as much as this.
TEST(PaperTest, LogisticRowsBeyondParametersAreForPipeDream) {
  RaceOptions options = LogisticOptions({32}, {0.5});
  options.seeds = 4;
  options.tune_seeds = 2;
  options.refine = 0;
  const Race race = LogisticRace(options, 5000);
  ExpectAgrees(race.entries[1], {1.10, std::log(1.13 / 1.08) / 2 / 2.26});
  EXPECT_GT(race.entries[1].against_first->low, 1.0);
  EXPECT_LT(race.entries[1].against_first->mean, 1.1);
}

// It is not delays that hold PipeDream back: SGD at its pace without any leaves .85 … 1.01 of it.
TEST(PaperTest, LogisticDelaysCostLittle) {
  RaceOptions options = LogisticOptions({2, 8, 32}, {0.5});
  options.methods = {"pd", "sgd"};
  const Race race = LogisticRace(options);
  for (const size_t k : {1U, 3U, 5U}) {
    const RaceEntry& sgd = race.entries[k];
    const double margin = 2.6 * std::sqrt(2.0) * ErrorOf(sgd);
    EXPECT_GT(std::log(sgd.against_first->mean), std::log(0.85) - margin) << sgd.stages;
    EXPECT_LT(std::log(sgd.against_first->mean), std::log(1.01) + margin) << sgd.stages;
  }
}

// Least squares with the chain's Hessian, 5 of 600 rows at a time, S = 16, 1230 ticks. One sample
// each: PipeDream 2.731, LocalSGD 19.518 with H = 2 and 22.504 with H = 5, 2BW and GPipe 2.8 … 3.2
// and 7.4 … 8.3, Randomized PipeDream 9 … 10. A sample varies as ours do.
TEST(PaperTest, QuadraticPipeDreamIsAhead) {
  ObjectiveOptions problem;
  problem.batch = 5;
  problem.start = LinearStart::kZero;
  RaceOptions options = PaperRace();
  options.stages = {16};
  options.trial.ticks = 1230;
  options.methods = {"pd", "local", "rpd", "gpipe", "2bw"};
  const Race race = RunFresh("chain-rows", problem, options);
  const Expected expected[] = {{22.50372 / 2.731247, 0},
                               {9.5 / 2.731247, std::log(10 / 9.0) / 2},
                               {7.85 / 2.731247, std::log(8.3 / 7.4) / 2},
                               {3.0 / 2.731247, std::log(3.2 / 2.8) / 2}};
  for (size_t k = 0; k < 4; ++k) {
    const RaceEntry& entry = race.entries[k + 1];
    const double own = std::log(entry.against_first->high / entry.against_first->low) / 2 /
                       StudentQuantile(options.seeds - 1) * std::sqrt(options.seeds);
    ExpectAgrees(entry, {expected[k].ratio, std::hypot(own, expected[k].error)});
    EXPECT_EQ(entry.verdict, Standing::kBehind) << entry.method;
  }
  options.trial.every = 2;
  options.methods = {"pd", "local"};
  const Race two = RunFresh("chain-rows", problem, options);
  ExpectAgrees(two.entries[1],
               {19.51762 / 2.731247, ErrorOf(two.entries[1]) * std::sqrt(options.seeds)});
  // A method is behind by so much that no setting of the test decides it.
  EXPECT_GT(race.entries[2].against_first->low, 2.5);  // rpd
}

// Their language model with a quarter of the width, half of the window and a quarter of the
// windows: four stages, H = 5, 400 ticks of a made text. The whole is `heddle lab race --paper lm`,
// which docs/async.md shows; here as there PipeDream is ahead, by less than a tenth.
TEST(PaperTest, LanguageModelPipeDreamIsAhead) {
  ObjectiveOptions problem;
  problem.network = {.layers = 2, .hidden = 16, .context = 16, .samples = 4};
  RaceOptions options = PaperRace();
  options.tune_seeds = 3;
  options.step_sizes = 6;
  options.stages = {4};
  options.trial.ticks = 400;
  options.methods = {"pd", "local"};
  const auto model = MakeProblem("lm", problem).value();
  const Race race = RunRace(*model, options).value();
  const RaceEntry &pd = race.entries[0], &local = race.entries[1];
  EXPECT_EQ(local.verdict, Standing::kBehind);
  EXPECT_GT(local.against_first->low, 1.0);
  EXPECT_LT(local.against_first->high, 1.2);
  EXPECT_GT(local.held_out->low, pd.held_out->high);
  // Both learn: a uniform guess has ln 20, 3.0.
  EXPECT_LT(pd.final.high, 2.2);
  EXPECT_LT(local.final.high, 2.4);
}

}  // namespace
}  // namespace heddle
