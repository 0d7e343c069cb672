// A run that was stopped and went on has the bits of the one that was not, under every strategy:
// with a rate that changes, dropout and clipping.

#include <gtest/gtest.h>

#include "choose/planners.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=6&hidden=16&heads=2&seq=8&vocab=64&dropout=10&tied=0";
constexpr char kMoe[] =
    "tiny-moe?layers=2&hidden=16&heads=2&seq=8&vocab=64&experts=4&every=1&dropout=10";

struct Case {
  std::string strategy;
  PlanRequest options;
  std::string name;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  PlanRequest options;
  options.batch = 8;
  options.optimizer = Optimizer::kAdamW;
  for (const Planner& planner : Planners()) {
    options.model = planner.name == "expert-parallel" ? kMoe : kGpt;
    // Stages and replicas that do not wait for each other cannot know the norm of all gradients.
    options.clip = planner.name == "async" || planner.name == "local" ? 0 : 1;
    options.every = 4;
    std::string name = planner.name;
    std::replace(name.begin(), name.end(), '-', '_');
    if (planner.name == "async") {
      for (const WeightVersions versions : kWeightVersions) {
        options.versions = versions;
        cases.push_back({planner.name, options, name + "_" + std::string(NameOf(versions))});
      }
      continue;
    }
    if (planner.name == "local") {
      options.replicas = ReplicaPlace::kPipelined;
      cases.push_back({planner.name, options, name + "_pipelined"});
      options.replicas = ReplicaPlace::kWhole;
      name += "_whole";
    }
    cases.push_back({planner.name, options, name});
  }
  return cases;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class ResumeTest : public testing::TestWithParam<Case> {
 protected:
  static RunConfig Config(const std::string& directory) {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = directory;
    config.steps = 2 * kHalf;
    config.save_every = kHalf;  // asynchronous pipelines are drained there, in both runs
    config.learning_rate = 0.01;
    config.schedule = "cosine:warmup=3,floor=0.1";
    config.validation = 0;
    return config;
  }

  static constexpr int64_t kHalf = 8;
};

TEST_P(ResumeTest, TheBitsOfARunThatWasNotStopped) {
  const ScratchFolder folder;
  const Planning planning = Planning::Make(GetParam().options, Mixed4(), nullptr).value();
  const Result<Plan> plan = MakePlan(GetParam().strategy, planning);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const auto train = [&](const RunConfig& config, const RunListener& listener) -> RunResult {
    const Training training =
        PrepareTraining(plan.value(), planning.graph, config, MakeTorchExecutor).value();
    Result<RunResult> result = TrainOnThreads(training, listener);
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return result.ok() ? std::move(result).value() : RunResult{};
  };
  const RunResult whole = train(Config(folder / "whole"), {});
  ASSERT_EQ(whole.losses.size(), 2U * kHalf);
  std::atomic<int64_t> seen = 0;
  RunListener listener;
  listener.step = [&](int64_t step, int64_t, double, double) { seen = step; };
  listener.interrupted = [&] { return seen >= kHalf; };
  const RunResult half = train(Config(folder / "half"), listener);
  EXPECT_TRUE(half.interrupted);
  const auto done = static_cast<int64_t>(half.losses.size());
  ASSERT_GE(done, kHalf);
  ASSERT_LT(done, 2 * kHalf);
  RunConfig rest = Config("");
  rest.resume = half.directory;
  const RunResult resumed = train(rest, {});
  EXPECT_EQ(resumed.first_step, done);
  std::vector<double> losses = half.losses;
  losses.insert(losses.end(), resumed.losses.begin(), resumed.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_EQ(resumed.parameter_hash, whole.parameter_hash);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ResumeTest, testing::ValuesIn(Cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace heddle
