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
  plan.request.batch = 4;
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

// Gradients add up; their sums over devices come once, after the last microbatch, or after each.
TEST(SpmdLowerTest, Microbatches) {
  const Graph graph = Mlp();
  Plan plan = PlanWith(DataParallel(graph, FlatMesh(2), {0.5, 0.5}), Bytes{1 << 20});
  plan.microbatches = 2;
  EXPECT_EQ(FaultsOf(plan, graph), "");
  const std::string sums = "all-reduce g.fc1.bias g.fc1.w g.fc0.bias g.fc0.w over g0 ring\n";
  EXPECT_EQ(ListOf(LowerPlan(plan, graph).value(), 0),
            "compute F0 #0\n"
            "compute B1 #0\n"
            "compute F0 #1\n"
            "compute B3 #1\n" +
                sums + "compute U5\n");
  plan.spmd->converts_each = true;
  EXPECT_EQ(FaultsOf(plan, graph), "");
  const std::string each = ListOf(LowerPlan(plan, graph).value(), 0);
  EXPECT_NE(each.find("all-reduce"), each.rfind("all-reduce"));
}

// Less of the activations is there at a time; and whole gradients of sharded weights are kept until
// the last microbatch, unless they are scattered after each.
TEST(SpmdLowerTest, MicrobatchesTakeLessMemory) {
  const auto peak = [](const char* model, int64_t batch, int64_t microbatches, bool each) {
    const Graph graph = BuildModel(model, {batch, DType::kF32, Optimizer::kAdam, 0}).value();
    Plan plan = PlanWith(ZeroSharded(graph, FlatMesh(2), {0.5, 0.5}), Bytes{1});
    plan.request.batch = batch;
    plan.microbatches = microbatches;
    plan.spmd->converts_each = each;
    const Program program = LowerPlan(plan, graph).value();
    return CheckProgram(program, {&graph, {}}).memory[0].peak.value;
  };
  const char* const small = "tiny-mlp?layers=4";
  EXPECT_LT(2 * peak(small, 4096, 4, false), peak(small, 4096, 1, false));
  EXPECT_LT(peak(small, 4096, 8, false), peak(small, 4096, 4, false));
  const char* const wide = "mlp?layers=8&inputs=256&hidden=256&outputs=256";
  EXPECT_LT(peak(wide, 16, 4, true), peak(wide, 16, 4, false));
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
  plan.microbatches = 3;
  EXPECT_THAT(FaultsOf(plan, graph), HasSubstr("3 do not divide the batch of 4"));
}

// --- Parts in collectives ------------------------------------------------------------------------

// Two members gather rows 2 to 4 of a tensor that has more.
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
  all-gather x~s[2:3] -> x)" +
                     whole + R"( over all dim 0 sizes 1,2 ring
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
  EXPECT_THAT(FindingFor("[3:5,0:2]", "[2:5]"), HasSubstr("they disagree on the part"));
  EXPECT_THAT(FindingFor("[3:5]", "[2:6]"), HasSubstr("the sizes add up to 3, not to the 4 of x"));
  EXPECT_THAT(FindingFor("[3:5]", ""), HasSubstr("the sizes add up to 3, not to the 8 of x"));
}

// From columns to rows: whoever had some columns gets some rows, with all columns.
TEST(SpmdCheckPartsTest, PartsOfAnAllToAllFitEachOther) {
  const auto finding = [](const std::string& after) {
    const std::string text = R"(heddle-program 1
device 0 "a:0"
device 1 "a:1"
group all 0 1
tensor x f32[4,6] activation
segment make0 other time 0.001 s
  writes x~s[:,0:4]
segment make1 other time 0.001 s
  writes x~s[:,4:6]
body
on 0
  compute make0
  all-to-all x~s[:,0:4] -> x[0:2)" +
                             after +
                             R"(] over all dim 1 sizes 4,2 to dim 0 sizes 2,2 ring
  free x~s x
on 1
  compute make1
  all-to-all x~s[:,4:6] -> x[2:4)" +
                             after +
                             R"(] over all dim 1 sizes 4,2 to dim 0 sizes 2,2 ring
  free x~s x
)";
    const Verdict verdict = CheckProgram(ParseProgram(text, "text").value());
    return verdict.ok() ? "" : verdict.findings[0].message;
  };
  EXPECT_EQ(finding(""), "");
  EXPECT_EQ(finding(",0:6"), "");
  EXPECT_THAT(finding(",0:4"), HasSubstr("x~s[:,0:4] and x do not fit along axis 1"));
}

}  // namespace
}  // namespace heddle
