// Asynchronous training: it learns, stops for held-out samples and checkpoints, and processes give
// the bits of threads.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "choose/planners.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=4&hidden=16&heads=2&seq=8&vocab=64&tied=0";

class AsyncTrainTest : public testing::Test {
 protected:
  static Planning PlanningFor(WeightVersions versions, const std::string& model = kGpt) {
    PlanRequest options;
    options.model = model;
    options.batch = 8;
    options.optimizer = Optimizer::kAdam;
    options.versions = versions;
    return Planning::Make(options, Mixed4(), nullptr).value();
  }

  // Four stages, whatever would be fastest for so small a model.
  static Plan FourStages(const Planning& planning) {
    Plan plan = MakePlan("async", planning).value();
    const std::string names[] = {"a:0", "a:1", "b:0", "b:1"};
    plan.pipelines[0].stages.clear();
    const int layers = planning.chain.size();
    const int64_t m = planning.request.versions == WeightVersions::kTwo ? 4 : 1;
    for (int s = 0; s < 4; ++s) {
      plan.pipelines[0].stages.push_back(Stage({{layers * s / 4, layers * (s + 1) / 4 - 1}},
                                               {names[s]}, {1}, fmt::format("(F B)*{}", m)));
    }
    plan.microbatches = m;
    return plan;
  }

  RunConfig Config(const std::string& directory, int64_t steps) const {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = root_ / directory;
    config.steps = steps;
    config.dtype = DType::kF64;
    config.learning_rate = 0.01;
    return config;
  }

  static Result<RunResult> Train(const Planning& planning, const Plan& plan,
                                 const RunConfig& config) {
    HEDDLE_ASSIGN(const Training training,
                  PrepareTraining(plan, planning.graph, config, MakeTorchExecutor));
    return TrainOnThreads(training, {});
  }

  ScratchFolder root_;
};

TEST_F(AsyncTrainTest, LearnsWithEveryKindOfVersions) {
  for (const WeightVersions versions : kWeightVersions) {
    const Planning planning = PlanningFor(versions);
    RunConfig config = Config(std::string(NameOf(versions)), 80);
    config.eval_every = 40;
    const Result<RunResult> result = Train(planning, FourStages(planning), config);
    ASSERT_TRUE(result.ok()) << result.error().ToString();
    ASSERT_EQ(result.value().losses.size(), 80U);
    ASSERT_EQ(result.value().held_out.size(), 2U);
    EXPECT_LT(result.value().held_out[1].loss, 0.95 * result.value().losses[0]) << NameOf(versions);
    EXPECT_TRUE(Validate(result.value().timeline).ok());
  }
}

// Sentences of a small grammar.
std::string GeneratedText() {
  const char* subjects[] = {"the weaver", "a loom", "the thread", "every shuttle"};
  const char* verbs[] = {"lifts", "follows", "crosses", "waits for"};
  const char* objects[] = {"the warp", "a red heddle", "its shadow", "the weft"};
  std::string text;
  uint32_t state = 1;
  const auto pick = [&](const char* const* words) {
    state = state * 1664525U + 1013904223U;
    text += words[state >> 30U];
  };
  while (text.size() < 8000) {
    pick(subjects);
    text += ' ';
    pick(verbs);
    text += ' ';
    pick(objects);
    text += ".\n";
  }
  return text;
}

// Four stages on a text, with and without stashing, against the same stages with a flush: the
// held-out loss falls by at least 70% of what it falls there in as many steps, which take it
// several times as long.
TEST_F(AsyncTrainTest, HeldOutLossFallsAsWithAFlush) {
  ASSERT_TRUE(WriteFile(root_ / "text.txt", GeneratedText()).ok());
  const auto fall = [&](WeightVersions versions, bool flush) {
    const Planning planning =
        PlanningFor(versions, "tiny-gpt?layers=4&hidden=16&heads=2&seq=16&vocab=256&tied=0");
    Plan plan = FourStages(planning);
    if (flush) plan.async.reset();
    RunConfig config = Config(std::string(NameOf(versions)) + (flush ? "-flush" : ""), 240);
    config.data = "text:" + (root_ / "text.txt");
    config.validation = 0.02;
    config.dtype = DType::kF32;
    config.learning_rate = 0.003;
    const Result<RunResult> trained = Train(planning, plan, config);
    EXPECT_TRUE(trained.ok()) << trained.error().ToString();
    const RunResult& result = trained.value();
    return result.losses.front() - result.held_out.back().loss;
  };
  const double with_flush = fall(WeightVersions::kStash, true);
  EXPECT_GT(with_flush, 1);
  EXPECT_GT(fall(WeightVersions::kStash, false), 0.7 * with_flush);
  EXPECT_GT(fall(WeightVersions::kNone, false), 0.7 * with_flush);
}

// Stopping drains the pipeline: a run that goes on from a checkpoint equals one that stopped there.
TEST_F(AsyncTrainTest, GoesOnFromACheckpoint) {
  const Planning planning = PlanningFor(WeightVersions::kStash);
  const Plan plan = FourStages(planning);
  RunConfig whole = Config("whole", 40);
  whole.save_every = 20;
  const RunResult once = Train(planning, plan, whole).value();
  const RunResult first = Train(planning, plan, Config("first", 20)).value();
  RunConfig second = Config("second", 40);
  second.resume = first.directory;
  const RunResult resumed = Train(planning, plan, second).value();
  EXPECT_EQ(resumed.parameter_hash, once.parameter_hash);
}

TEST_F(AsyncTrainTest, TooFewStepsBetweenStopsAreRefused) {
  const Planning planning = PlanningFor(WeightVersions::kStash);
  RunConfig config = Config("run", 20);
  config.eval_every = 3;
  const Result<RunResult> result = Train(planning, FourStages(planning), config);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().ToString(), testing::HasSubstr("needs 7 to fill and drain"));
}

}  // namespace
}  // namespace heddle
