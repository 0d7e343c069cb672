// Asynchronous pipelines equal delayed reads written directly on the graph, in fp64.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/lower/async_lower.h"
#include "program/unroll.h"
#include "run/data/synthetic.h"
#include "run/torch/torch_threads.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=6&hidden=16&seq=8&vocab=32&tied=0";

// Stages of the given devices, layers divided about evenly.
Plan AsyncOn(const Planning& planning, const std::vector<std::vector<std::string>>& stages,
             WeightVersions versions, int64_t microbatches = 1) {
  PipelinePlan pipeline;
  const int layers = planning.chain.size(), count = static_cast<int>(stages.size());
  for (int s = 0; s < count; ++s) {
    const auto& devices = stages[static_cast<size_t>(s)];
    std::vector<double> shares;
    for (size_t k = 0; k < devices.size(); ++k) shares.push_back(k == 0 ? 2 : 1);
    pipeline.stages.push_back(Stage({{layers * s / count, layers * (s + 1) / count - 1}}, devices,
                                    shares, fmt::format("(F B)*{}", microbatches)));
  }
  Plan plan = HandMade(planning, microbatches, {pipeline});
  plan.async = AsyncPlan{versions};
  return plan;
}

Result<Verification> Verified(const Planning& planning, const Plan& plan, const Program& program) {
  VerifyOptions options;
  options.ages = WeightAges(plan, planning.chain.size());
  return VerifyProgram(program, planning.graph, options);
}

void ExpectDelayedParity(const Planning& planning, const Plan& plan) {
  const std::string what = std::string(NameOf(plan.async->versions));
  ASSERT_TRUE(ValidatePlan(plan, planning.chain.size(), what).ok());
  const Program program = LowerPlan(plan, planning.graph).value();
  const Verdict verdict = CheckProgram(program, {&planning.graph, {}});
  ASSERT_TRUE(verdict.ok()) << what << ": " << verdict.findings[0].message;
  const AsyncEnds ends = EndsOf(plan);
  EXPECT_EQ(StepsOutsideBody(program), ends.head + ends.tail);
  const Result<Verification> verification = Verified(planning, plan, program);
  ASSERT_TRUE(verification.ok()) << what << ": " << verification.error().ToString();
  EXPECT_TRUE(verification.value().ok) << what << ": " << verification.value().worst;
}

TEST(AsyncVerifyTest, EveryWayToKeepVersions) {
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kAdam}) {
    const Planning planning = MakePlanning(kGpt, 8, optimizer);
    for (const WeightVersions versions : kWeightVersions) {
      const bool two = versions == WeightVersions::kTwo;
      ExpectDelayedParity(
          planning, AsyncOn(planning, {{"a:0"}, {"a:1"}, {"b:0"}, {"b:1"}}, versions, two ? 4 : 1));
    }
  }
}

TEST(AsyncVerifyTest, ReplicatedStagesAndOneStage) {
  const Planning planning = MakePlanning(kGpt, 9, Optimizer::kMomentum);
  for (const WeightVersions versions : kWeightVersions) {
    const bool two = versions == WeightVersions::kTwo;
    ExpectDelayedParity(planning,
                        AsyncOn(planning, {{"a:0", "a:1"}, {"b:0", "b:1"}}, versions, two ? 2 : 1));
    ExpectDelayedParity(planning, AsyncOn(planning, {{"a:0"}}, versions, two ? 3 : 1));
  }
}

// A wrong age of the reference must show: the test can fail.
TEST(AsyncVerifyTest, ASynchronousReferenceDiffers) {
  const Planning planning = MakePlanning(kGpt, 8, Optimizer::kSgd);
  const Plan plan = AsyncOn(planning, {{"a:0"}, {"a:1"}, {"b:0"}, {"b:1"}}, WeightVersions::kStash);
  const Program program = LowerPlan(plan, planning.graph).value();
  VerifyOptions options;
  options.train.learning_rate = 0.1;
  const Result<Verification> plain = VerifyProgram(program, planning.graph, options);
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain.value().ok);
}

TEST(AsyncVerifyTest, SharedWeightsAreRefused) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=6&hidden=16&seq=8&vocab=32&tied=1", 8, Optimizer::kSgd);
  const Plan plan = AsyncOn(planning, {{"a:0"}, {"a:1"}}, WeightVersions::kStash);
  const Result<Program> program = LowerPlan(plan, planning.graph);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::kInfeasible);
}

}  // namespace
}  // namespace heddle
