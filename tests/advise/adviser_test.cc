// The adviser: progress per batch, and what follows for a cluster.
#include "advise/adviser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "choose/planners.h"
#include "lab/map.h"
#include "lab/problems.h"
#include "support/places.h"

namespace heddle {
namespace {

using testing::HasSubstr;

const Cluster& Mixed4() {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  return cluster;
}

Planning PlanningFor(const std::string& model) {
  PlanRequest options;
  options.model = model;
  options.batch = 16;
  return Planning::Make(options, Mixed4(), nullptr).value();
}

std::string NotesOf(const Plan& plan) {
  std::string notes;
  for (const std::string& note : plan.search.notes) notes += note + "\n";
  return notes;
}

// Without old weights and without averages all methods are plain training: a batch is a batch.
TEST(MeasureProgressTest, OneStageIsPlainTraining) {
  AdviceOptions options;
  options.evidence = "quadratic";
  options.noise = 0.05;
  options.batches = 200;
  const std::vector<Progress> progress =
      MeasureProgress({{"gpipe", 1, 1}, {"pd", 1, 1}, {"local-plain", 1, 1}}, options).value();
  EXPECT_NEAR(progress[0].batches.mean, 100, 1);
  for (const Progress& one : progress) {
    EXPECT_EQ(one.batches.mean, progress[0].batches.mean);
    EXPECT_LE(one.batches.low, one.batches.mean);
    EXPECT_GE(one.batches.high, one.batches.mean);
  }
}

TEST(MeasureProgressTest, OldWeightsNeedMoreBatches) {
  AdviceOptions options;
  options.evidence = "quadratic";
  options.noise = 0.05;
  options.batches = 400;
  const std::vector<Progress> progress =
      MeasureProgress({{"gpipe", 1, 1}, {"pd", 8, 1}, {"local-plain", 8, 4}}, options).value();
  EXPECT_GT(progress[1].batches.mean, progress[0].batches.mean);
  EXPECT_GT(progress[2].batches.mean, progress[0].batches.mean);
}

// The map's problem: with many rows for a parameter batches are worth what they are; a run's
// measured noise is turned into the σ that makes as much.
TEST(MeasureProgressTest, TheMapAtTheUsersNoise) {
  AdviceOptions options;
  options.batches = 300;
  options.rows_per_parameter = 2;
  const std::vector<RaceEntrant> entrants = {{"gpipe", 1, 1}, {"pd", 8, 1}, {"local-plain", 8, 5}};
  options.noise_ratio = 0;  // less than rows make
  const std::vector<Progress> quiet = MeasureProgress(entrants, options).value();
  options.noise_ratio.reset();
  options.noise = 0;
  const std::vector<Progress> same = MeasureProgress(entrants, options).value();
  for (size_t k = 0; k < 3; ++k) EXPECT_EQ(quiet[k].batches.mean, same[k].batches.mean);
  EXPECT_GT(quiet[1].batches.mean, quiet[0].batches.mean);
}

TEST(NoiseForRatioTest, MakesAsMuchNoise) {
  const auto objective = MakeProblem("logistic", MapProblem("logistic", 32, 2)).value();
  const double own = RatioWithoutNoise(*objective), sigma = NoiseForRatio(*objective, own + 3);
  EXPECT_EQ(NoiseForRatio(*objective, own / 2), 0);
  // E‖∇ + σξ‖² - ‖∇‖² is σ²d, here 3‖∇f‖².
  std::vector<double> x(32), gradient(32);
  const auto whole = MakeProblem("logistic",
                                 [] {
                                   ObjectiveOptions all = MapProblem("logistic", 32, 2);
                                   all.batch = 0;
                                   return all;
                                 }())
                         .value();
  Pass pass = whole->MakePass();
  whole->Gradient(x.data(), pass, gradient.data());
  double square = 0;
  for (const double element : gradient) square += element * element;
  EXPECT_NEAR(sigma * sigma * 32, 3 * square, 1e-9 * square);
}

TEST(BatchesByBoundTest, GrowsWithStages) {
  EXPECT_NEAR(BatchesByBound(1, 500), 500, 1);
  double before = 500;
  for (const int stages : {2, 4, 8, 16}) {
    const double batches = BatchesByBound(stages, 500);
    EXPECT_GT(batches, before) << stages;
    before = batches;
  }
}

TEST(AdviserTest, TheFastestStepIsAheadOfEverySynchronousStrategy) {
  const Planning planning = PlanningFor("tiny-gpt?layers=6&tied=0");
  const Plan best = FastestStep(planning, {}).value();
  EXPECT_FALSE(best.async || best.local);
  for (const char* strategy : {"pipeline", "spmd", "dp", "1f1b", "hetpipe"}) {
    const Result<Plan> plan = MakePlan(strategy, planning);
    if (!plan.ok()) continue;
    EXPECT_LE(best.estimate.iteration_seconds, plan.value().estimate.iteration_seconds) << strategy;
  }
}

// The evidence is told, and decides: where gradients have no noise old weights do not pay.
TEST(AdviserTest, EvidenceDecides) {
  const Planning planning = PlanningFor("tiny-gpt?layers=6&tied=0");
  AdviceOptions options;
  options.evidence = "quadratic";
  options.noise = 0;
  const Plan exact = FastestToLoss(planning, options).value();
  EXPECT_FALSE(exact.async || exact.local) << NotesOf(exact);
  EXPECT_THAT(NotesOf(exact), HasSubstr("evidence: a race on quadratic, noise 0"));
  EXPECT_THAT(NotesOf(exact), HasSubstr("asynchronous: async"));
  options.evidence = "bound";
  const Plan bounded = FastestToLoss(planning, options).value();
  EXPECT_THAT(NotesOf(bounded), HasSubstr("evidence: the convergence bound"));
  EXPECT_THAT(NotesOf(bounded), HasSubstr("no bound is known"));
  EXPECT_TRUE(bounded.async.has_value()) << NotesOf(bounded);
}

TEST(AdviserTest, TheMapIsTheEvidenceUnlessAsked) {
  AdviceOptions options;
  options.rows_per_parameter = 0.5;
  options.batches = 200;
  const Plan plan = FastestToLoss(PlanningFor("tiny-gpt?layers=6&tied=0"), options).value();
  EXPECT_THAT(NotesOf(plan), HasSubstr("the map's race on logistic with 0.5 rows per parameter"));
}

TEST(AdviserTest, WhatDoesNotFitIsSaid) {
  // Tied weights: no asynchronous stages.
  const Plan plan = FastestToLoss(PlanningFor("gpt?layers=6"), {}).value();
  EXPECT_THAT(NotesOf(plan), HasSubstr("local: local"));
  const Result<Plan> none = FastestToLoss(PlanningFor("gpt?layers=12&hidden=12288&heads=12"), {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kInfeasible);
  AdviceOptions unknown;
  unknown.evidence = "no-such-thing";
  EXPECT_FALSE(FastestToLoss(PlanningFor("tiny-mlp"), unknown).ok());
}

}  // namespace
}  // namespace heddle
