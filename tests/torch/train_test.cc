// Training on this machine: what is learned, saved, resumed under another plan, and refused.

#include "run/train/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/json_field.h"
#include "choose/planners.h"
#include "program/check/check.h"
#include "program/lower/forward_only.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/torch/torch_executor.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kGpt[] = "tiny-gpt?layers=2&hidden=16&heads=2&seq=8&vocab=64&dropout=10";

struct Planned {
  Planning planning;
  Plan plan;
};

Planned PlanFor(const std::string& strategy, const std::string& model = kGpt,
                Optimizer optimizer = Optimizer::kAdamW, int64_t batch = 8) {
  Planning planning = MakePlanning(model, batch, optimizer, strategy == "dp" ? 1 : 4, /*clip=*/1);
  Plan plan = MakePlan(strategy, planning).value();
  return {std::move(planning), std::move(plan)};
}

class TrainTest : public testing::Test {
 protected:
  RunConfig Config(const std::string& directory, int64_t steps) const {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = root_ / directory;
    config.steps = steps;
    config.dtype = DType::kF64;
    config.learning_rate = 0.01;
    config.schedule = "cosine:warmup=3,floor=0.1";
    return config;
  }

  static Result<RunResult> Train(const Planned& planned, const RunConfig& config,
                                 const RunListener& listener) {
    HEDDLE_ASSIGN(const Training training,
                  PrepareTraining(planned.plan, planned.planning.graph, config, MakeTorchExecutor));
    return TrainOnThreads(training, listener);
  }

  RunResult Run(const Planned& planned, const RunConfig& config, const RunListener& listener = {}) {
    Result<RunResult> result = Train(planned, config, listener);
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return result.ok() ? std::move(result).value() : RunResult{};
  }

  std::string ErrorOf(const Planned& planned, const RunConfig& config) {
    const Result<RunResult> result = Train(planned, config, {});
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.error().ToString();
  }

  ScratchFolder root_;
};

TEST_F(TrainTest, LearnsAndSeesItOnSamplesHeldOut) {
  RunConfig config = Config("run", 60);
  config.eval_every = 20;
  const RunResult result = Run(PlanFor("1f1b"), config);
  ASSERT_EQ(result.losses.size(), 60U);
  EXPECT_LT(result.losses.back(), 0.8 * result.losses.front());
  ASSERT_EQ(result.held_out.size(), 3U);
  EXPECT_EQ(result.held_out[1].step, 40);
  EXPECT_LT(result.held_out[2].loss, result.held_out[0].loss);
  EXPECT_GT(result.measured_iteration_seconds, 0);
  EXPECT_GT(result.predicted_iteration_seconds, 0);
  EXPECT_FALSE(result.timeline.events.empty());
  EXPECT_TRUE(Validate(result.timeline).ok());
  const RunDirectory directory = RunDirectory::Open(result.directory).value();
  const std::vector<Json> log = directory.ReadLog().value();
  EXPECT_EQ(log.size(), 63U);
  EXPECT_EQ(log.back().at("validation_loss"), result.held_out.back().loss);
  EXPECT_TRUE(LoadPlan(directory.plan_path()).ok());
}

// The same samples, dropout and rates whatever the plan: losses agree, on samples held out too.
TEST_F(TrainTest, PlansAgree) {
  RunConfig config = Config("one", 6);
  const RunResult one = Run(PlanFor("dp"), config);
  for (const char* strategy : {"1f1b", "gpipe", "dp-proportional"}) {
    config.directory = root_ / strategy;
    const RunResult other = Run(PlanFor(strategy), config);
    for (size_t k = 0; k < one.losses.size(); ++k) {
      EXPECT_NEAR(other.losses[k], one.losses[k], 1e-10 * one.losses[k]) << strategy << k;
    }
    EXPECT_NEAR(other.held_out[0].loss, one.held_out[0].loss, 1e-10) << strategy;
  }
}

TEST_F(TrainTest, TheSameRunGivesTheSameBits) {
  const RunResult a = Run(PlanFor("1f1b"), Config("a", 5));
  const RunResult b = Run(PlanFor("1f1b"), Config("b", 5));
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.parameter_hash, b.parameter_hash);
  RunConfig config = Config("c", 5);
  config.seed = 2;
  EXPECT_NE(Run(PlanFor("1f1b"), config).parameter_hash, a.parameter_hash);
}

TEST_F(TrainTest, ResumedUnderAnotherPlanItGoesOnAsIfNothingHadHappened) {
  const RunResult whole = Run(PlanFor("1f1b"), Config("whole", 10));
  RunConfig first = Config("first", 10);
  first.save_every = 4;
  int64_t seen = 0;
  RunListener listener;
  listener.step = [&](int64_t step, int64_t, double, double) { seen = step; };
  listener.interrupted = [&] { return seen >= 4; };
  const RunResult begun = Run(PlanFor("1f1b"), first, listener);
  EXPECT_TRUE(begun.interrupted);
  ASSERT_EQ(begun.losses.size(), 4U);
  for (const char* strategy : {"dp", "gpipe", "1f1b"}) {
    RunConfig rest = Config(std::string("rest-") + strategy, 10);
    rest.resume = begun.directory;
    const RunResult resumed = Run(PlanFor(strategy), rest);
    EXPECT_EQ(resumed.first_step, 4);
    ASSERT_EQ(resumed.losses.size(), 6U) << strategy;
    for (size_t k = 0; k < 6; ++k) {
      EXPECT_NEAR(resumed.losses[k], whole.losses[k + 4], 1e-9 * whole.losses[k + 4]) << strategy;
    }
    const bool same_plan = strategy == std::string("1f1b");
    EXPECT_EQ(resumed.parameter_hash == whole.parameter_hash, same_plan) << strategy;
  }
}

TEST_F(TrainTest, ResumingInPlaceKeepsOneLinePerStep) {
  RunConfig config = Config("run", 6);
  config.save_every = 2;
  Run(PlanFor("1f1b"), config);
  RunConfig rest = config;
  rest.directory = "";
  rest.resume = config.directory;
  rest.steps = 8;
  const RunResult resumed = Run(PlanFor("dp"), rest);
  EXPECT_EQ(resumed.first_step, 6);
  EXPECT_EQ(resumed.directory, config.directory);
  std::vector<int64_t> steps;
  const RunDirectory directory = RunDirectory::Open(config.directory).value();
  const std::vector<Json> log = directory.ReadLog().value();
  for (const Json& line : log) {
    if (line.contains("loss")) steps.push_back(line.at("step"));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(resumed.checkpoint, HasSubstr("step-00000008"));
}

TEST_F(TrainTest, WeightsAreWrittenByName) {
  RunConfig config = Config("run", 2);
  config.weights = root_ / "w.safetensors";
  const Planned planned = PlanFor("gpipe");
  const RunResult result = Run(planned, config);
  const SafetensorsFile weights = SafetensorsFile::Open(config.weights).value();
  EXPECT_EQ(weights.tensors().size(), planned.planning.graph.parameters().size());
  const StoredTensor* table = weights.Find("embed.tokens");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->shape, (std::vector<int64_t>{64, 16}));
  const Checkpoint checkpoint = LoadCheckpoint(result.checkpoint).value();
  EXPECT_TRUE(std::ranges::equal(checkpoint.tensors.Find("embed.tokens")->bytes, table->bytes));
  EXPECT_NE(checkpoint.tensors.Find("embed.tokens.m"), nullptr);
}

TEST_F(TrainTest, ATextIsLearned) {
  const std::string path = root_ / "text.txt";
  {
    std::ofstream text(path);
    for (int k = 0; k < 400; ++k) text << "the quick brown fox ";
  }
  RunConfig config = Config("run", 60);
  config.data = "text:" + path;
  const RunResult result = Run(PlanFor("1f1b", "tiny-gpt?layers=2&hidden=32&seq=16"), config);
  EXPECT_LT(result.held_out.back().loss, 0.6 * result.losses.front());
}

TEST_F(TrainTest, WhatDoesNotFitIsRefused) {
  RunConfig config = Config("run", 2);
  const RunResult result = Run(PlanFor("dp"), config);
  RunConfig resumed = Config("other", 4);
  resumed.resume = result.directory;
  EXPECT_THAT(ErrorOf(PlanFor("dp", "tiny-gpt?layers=3&hidden=16&heads=2&seq=8&vocab=64"), resumed),
              HasSubstr("has no block2"));
  EXPECT_THAT(ErrorOf(PlanFor("dp", "tiny-gpt?layers=2&hidden=16&heads=2&seq=8&vocab=32"), resumed),
              HasSubstr("embed.tokens has another shape"));
  EXPECT_THAT(ErrorOf(PlanFor("dp", kGpt, Optimizer::kMomentum), Config("run", 2)),
              HasSubstr("holds a run"));
  resumed.seed = 7;
  EXPECT_THAT(ErrorOf(PlanFor("dp"), resumed), HasSubstr("7 is not the seed"));
  resumed.seed.reset();
  resumed.steps = 1;
  EXPECT_THAT(ErrorOf(PlanFor("dp"), resumed), HasSubstr("2 steps are done already"));
  resumed.resume = root_ / "nowhere";
  EXPECT_THAT(ErrorOf(PlanFor("dp"), resumed), HasSubstr("nowhere"));
  RunConfig text = Config("text", 2);
  text.data = "text:/does/not/exist";
  EXPECT_THAT(ErrorOf(PlanFor("dp"), text), HasSubstr("/does/not/exist"));
}

TEST_F(TrainTest, AFileInTheWayIsAnError) {
  std::ofstream(root_ / "file") << "x";
  RunConfig config = Config("file/run", 2);
  EXPECT_THAT(ErrorOf(PlanFor("dp"), config), HasSubstr("file"));
}

// The Program that only looks is well formed for every kind of plan.
TEST(ForwardOnlyTest, IsWellFormed) {
  for (const char* strategy : {"dp", "dp-proportional", "gpipe", "1f1b", "interleaved"}) {
    const Planning planning =
        MakePlanning("tiny-gpt?layers=6&hidden=16&seq=8&vocab=32", 16, Optimizer::kAdam);
    const Plan plan = MakePlan(strategy, planning).value();
    const Program forward = ForwardOnly(LowerPlan(plan, planning.graph).value());
    CheckOptions options;
    const Verdict verdict = CheckProgram(forward, options);
    EXPECT_TRUE(verdict.ok()) << strategy << ": " << verdict.findings[0].message;
  }
}

}  // namespace
}  // namespace heddle
