// Training under SPMD plans: the same losses as on one device, on samples held out too; shards of
// weights are saved as whole ones and taken up by any other plan.

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "program/check/check.h"
#include "program/lower/forward_only.h"
#include "program/spmd_plans.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&dropout=10";
constexpr int64_t kBatch = 6;

const std::vector<std::vector<std::string>> kTwoByTwo = {{"a:0", "a:1"}, {"b:0", "b:1"}};
const std::vector<std::vector<std::string>> kFlat = {{"a:0", "a:1", "b:0", "b:1"}};

class SpmdTrainTest : public testing::Test {
 protected:
  SpmdTrainTest() : planning_(MakePlanning(kGpt, kBatch, Optimizer::kAdamW, 1, /*clip=*/1)) {
    one_ = PlanOf(DataParallel(planning_.graph, {{"a:0"}}, {1.0}));
    zero_ = PlanOf(ZeroSharded(planning_.graph, kFlat, {0.4, 0.4, 0, 0.2}));
    random_ = PlanOf(RandomSpmdPlan(planning_.graph, kTwoByTwo, 3));
    parts_ = zero_;
    parts_.microbatches = 3;
    parts_.spmd->converts_each = true;
  }

  Plan PlanOf(SpmdPlan spmd) const {
    Plan plan = planning_.Blank("spmd", "spmd");
    plan.microbatches = 1;
    plan.spmd = std::move(spmd);
    return plan;
  }

  RunResult Run(const Plan& plan, const std::string& directory, int64_t steps,
                const std::string& resume = "") {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = root_ / directory;
    config.steps = steps;
    config.dtype = DType::kF64;
    config.resume = resume;
    const Result<Training> training =
        PrepareTraining(plan, planning_.graph, config, MakeTorchExecutor);
    EXPECT_TRUE(training.ok()) << training.error().ToString();
    Result<RunResult> result = TrainOnThreads(training.value(), {});
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return result.ok() ? std::move(result).value() : RunResult{};
  }

  ScratchFolder root_;
  Planning planning_;
  Plan one_, zero_, random_, parts_;
};

TEST_F(SpmdTrainTest, PlansAgree) {
  const RunResult one = Run(one_, "one", 4);
  int run = 0;
  for (const Plan* plan : {&zero_, &random_, &parts_}) {
    const RunResult other = Run(*plan, "run" + std::to_string(run++), 4);
    ASSERT_EQ(other.losses.size(), one.losses.size());
    for (size_t k = 0; k < one.losses.size(); ++k) {
      EXPECT_NEAR(other.losses[k], one.losses[k], 1e-10) << k;
    }
    ASSERT_EQ(other.held_out.size(), 1U);
    EXPECT_NEAR(other.held_out[0].loss, one.held_out[0].loss, 1e-10);
  }
}

TEST_F(SpmdTrainTest, CheckpointsAreWholeAndFitAnyPlan) {
  const RunResult straight = Run(one_, "straight", 6);
  Run(zero_, "begun", 2);
  Run(random_, "further", 4, root_ / "begun");
  const RunResult ended = Run(zero_, "ended", 6, root_ / "further");
  ASSERT_EQ(ended.losses.size(), 2U);
  EXPECT_NEAR(ended.losses[1], straight.losses[5], 1e-9);
}

TEST_F(SpmdTrainTest, ThePlanSurvivesItsFile) {
  for (const Plan* plan : {&zero_, &random_, &parts_}) {
    const std::string text = PlanToJson(*plan, GraphOf(*plan).value()).dump(1);
    const Result<Plan> again = ParsePlan(text, "plan.json");
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(PlanToJson(again.value(), GraphOf(*plan).value()).dump(1), text);
    EXPECT_EQ(again.value().devices_used(), 4);
    ExpectParity(LowerPlan(again.value(), planning_.graph).value(), planning_.graph, "read again");
  }
}

TEST_F(SpmdTrainTest, ForwardAloneIsWellFormed) {
  for (const Plan* plan : {&zero_, &random_, &parts_}) {
    const Program forward = ForwardOnly(LowerPlan(*plan, planning_.graph).value());
    const Verdict verdict = CheckProgram(forward);
    EXPECT_TRUE(verdict.ok()) << verdict.findings[0].message;
  }
}

// Memory of a plan that gathers weights again for backward is smaller, its results the same.
TEST_F(SpmdTrainTest, WeightsGatheredAgainForBackward) {
  const Graph& graph = planning_.graph;
  SpmdPlan again = *zero_.spmd;
  std::map<TensorId, SpmdStep> gathers;
  for (size_t k = 0; k < again.steps.size(); ++k) {
    const SpmdStep step = again.steps[k];
    if (step.converts()) {
      const bool parameter = graph.tensor(step.tensor).role == Role::kParameter;
      if (parameter) gathers[step.tensor] = step;
      continue;
    }
    const Op& op = graph.op(step.op);
    if (op.phase != Phase::kBackwardInput) continue;
    for (const Operand& input : op.inputs) {
      const auto gathered = gathers.find(input.tensor);
      if (gathered == gathers.end()) continue;
      again.steps.insert(again.steps.begin() + static_cast<std::ptrdiff_t>(k), gathered->second);
      gathers.erase(gathered);
      ++k;
    }
  }
  ASSERT_GT(again.steps.size(), zero_.spmd->steps.size());
  const Program program = LowerPlan(PlanOf(again), graph).value();
  ExpectParity(program, graph, "gathered again");
  const Program once = LowerPlan(zero_, graph).value();
  EXPECT_LT(CheckProgram(program).memory[0].peak, CheckProgram(once).memory[0].peak);
}

}  // namespace
}  // namespace heddle
