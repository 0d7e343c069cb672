// What becomes of SPMD plans: the order of work, what is freed, and what the checker makes of
// parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_plans.h"
#include "model/zoo.h"
#include "program/check/check.h"
#include "program/text/program_text.h"
#include "spmd_plans.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Graph Mlp() {
  return BuildModel("tiny-mlp?layers=2", {4, DType::kF32, Optimizer::kSgd, 0}).value();
}

Plan PlanWith(SpmdPlan spmd, Bytes bucket) {
  Plan plan;
  plan.strategy = "spmd";
  plan.batch = 4;
  plan.bucket = bucket;
  plan.spmd = std::move(spmd);
  return plan;
}

// Sums of gradients are posted while backward goes on.
TEST(SpmdLowerTest, DataParallel) {
  const Graph graph = Mlp();
  const Plan plan = PlanWith(DataParallel(graph, FlatMesh(2), {0.75, 0.25}), Bytes{1});
  EXPECT_EQ(FaultsOf(plan, graph), "");
  const Program program = LowerPlan(plan, graph).value();
  EXPECT_EQ(ListOf(program, 1),
            "compute F0.2 #0\n"
            "compute B1.2 #0\n"
            "all-reduce g.fc1.bias over g0 ring\n"
            "compute B3.2 #0\n"
            "all-reduce g.fc1.w over g0 ring\n"
            "compute B5.2 #0\n"
            "all-reduce g.fc0.bias over g0 ring\n"
            "compute B7.2 #0\n"
            "all-reduce g.fc0.w over g0 ring\n"
            "compute U9\n");
  const Segment& forward = program.segment(program.devices[1].list(Section::kBody)[0].target);
  EXPECT_TRUE(forward.joint);
  EXPECT_EQ(program.ShardsOf(forward.ops[0]), (Shards{{'b', {3, 4}}}));
  const Program bucket = LowerPlan(PlanWith(*plan.spmd, Bytes{1 << 20}), graph).value();
  EXPECT_THAT(ListOf(bucket, 0),
              HasSubstr("all-reduce g.fc1.bias g.fc1.w g.fc0.bias g.fc0.w over g0 ring"));
}

TEST(SpmdLowerTest, ShardedStorageTakesLessMemory) {
  const Graph graph = Mlp();
  const auto peak = [&](const SpmdPlan& spmd) {
    const Program program = LowerPlan(PlanWith(spmd, Bytes{1}), graph).value();
    return CheckProgram(program, {&graph, {}}).memory[0].held;
  };
  const Bytes whole = peak(DataParallel(graph, FlatMesh(2), {0.5, 0.5}));
  const Bytes half = peak(ZeroSharded(graph, FlatMesh(2), {0.5, 0.5}));
  EXPECT_EQ(half * 2, whole);
}

// A plan that does not compute the model is refused with the step's number.
TEST(SpmdLowerTest, RefusesBrokenPlans) {
  const Graph graph = Mlp();
  SpmdPlan spmd = DataParallel(graph, FlatMesh(2), {0.5, 0.5});
  std::erase_if(spmd.steps, [](const SpmdStep& step) { return step.converts(); });
  const Result<Program> program = LowerPlan(PlanWith(spmd, Bytes{1}), graph);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().ToString(), HasSubstr("it is there as R.P"));
  Plan plan = PlanWith(DataParallel(graph, FlatMesh(2), {0.5, 0.5}), Bytes{1});
  plan.microbatches = 2;
  EXPECT_THAT(FaultsOf(plan, graph), HasSubstr("an SPMD program has one"));
}

// --- Parts in collectives ------------------------------------------------------------------------

// Two members gather rows 2 to 4 of a tensor that has more; %s is the second member's part.
std::string FindingFor(const std::string& part, const std::string& whole) {
  std::string text = R"(heddle-program 1
device 0 "a:0"
device 1 "a:1"
group all 0 1
tensor x f32[8,6] activation
segment make0 other time 0.001 s
  writes x~s[2:3]
segment make1 other time 0.001 s
  writes x~s[3:5]
body
on 0
  compute make0
  all-gather x~s[2:3] -> x[2:5] over all dim 0 sizes 1,2 ring
  free x~s x
on 1
  compute make1
  all-gather x~s)" + part +
                     " -> x" + whole + R"( over all dim 0 sizes 1,2 ring
  free x~s x
)";
  const Verdict verdict = CheckProgram(ParseProgram(text, "text").value());
  return verdict.ok() ? "" : verdict.findings[0].message;
}

TEST(SpmdCheckPartsTest, PartsFitTheirDivision) {
  EXPECT_EQ(FindingFor("[3:5]", "[2:5]"), "");
  EXPECT_THAT(FindingFor("[3:5]", "[2:6]"), HasSubstr("the sizes add up to 3, not to the 4 of x"));
  EXPECT_THAT(FindingFor("[3:5]", ""), HasSubstr("the sizes add up to 3, not to the 8 of x"));
}

}  // namespace
}  // namespace heddle
