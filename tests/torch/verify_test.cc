// Programs of every planner compute what one device would, in fp64.

#include "run/torch/verify.h"

#include <gtest/gtest.h>

#include "choose/planners.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

class VerifyTest : public testing::TestWithParam<std::string> {};

TEST_P(VerifyTest, EveryPlannerOnMlpAndGpt) {
  for (const char* model : {"tiny-mlp?layers=8", "tiny-gpt?layers=6&hidden=16&seq=8&vocab=32"}) {
    for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kAdam}) {
      const Planning planning = MakePlanning(model, 16, optimizer);
      const Plan plan = MakePlan(GetParam(), planning).value();
      const Program program = LowerPlan(plan, planning.graph).value();
      ExpectParity(program, planning.graph, GetParam() + " " + model);
    }
  }
}

// A batch that neither the microbatches nor the shares divide.
TEST_P(VerifyTest, UnevenBatch) {
  const Planning planning = MakePlanning("tiny-gpt?layers=6&hidden=16&seq=8&vocab=32", 13,
                                         Optimizer::kAdam, GetParam() == "interleaved" ? 4 : 3);
  const Plan plan = MakePlan(GetParam(), planning).value();
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Planners, VerifyTest,
                         testing::Values("dp", "dp-proportional", "gpipe", "1f1b", "zb-h1",
                                         "interleaved", "pipeline", "pipedream", "dapple",
                                         "hetpipe"),
                         [](const auto& planner) {
                           std::string name = planner.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(VerifyShapesTest, ReplicatedStagesWithUnevenShares) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32", 16, Optimizer::kAdam);
  const Plan plan = HandMade(planning, 4,
                             {{{Stage({{0, 2}}, {"a:0", "a:1"}, {3, 1}, "F*2 (F B)*2 B*2"),
                                Stage({{3, 5}}, {"b:0", "b:1"}, {1, 1}, "(F B)*4")}}});
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "3:1 to 1:1");
}

TEST(VerifyShapesTest, RecomputationAndSplitBackward) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32", 16, Optimizer::kAdam);
  Plan plan = HandMade(planning, 4,
                       {{{Stage({{0, 2}}, {"a:0"}, {1}, "F*2 (F I)*2 W I W I W*2"),
                          Stage({{3, 5}}, {"b:0", "b:1"}, {2, 1}, "(F I W)*4")}}});
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "split");
  plan.pipelines[0].stages[0].recompute = true;
  plan.pipelines[0].stages[1].recompute = true;
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "split and recomputed");
}

TEST(VerifyShapesTest, VShapedChunksAndTwoPipelines) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32", 16, Optimizer::kSgd);
  // Chunks 0 1 | 1 0: the second stage holds two that follow each other.
  const Plan v_shaped =
      HandMade(planning, 2,
               {{{Stage({{0, 1}, {5, 5}}, {"a:0"}, {1}, "F*2 F.1 B.1 B F.1 B.1 B"),
                  Stage({{2, 3}, {4, 4}}, {"b:0"}, {1}, "F F.1 F F.1 B.1 B B.1 B")}}});
  ExpectParity(LowerPlan(v_shaped, planning.graph).value(), planning.graph, "V");
  const Plan two = HandMade(planning, 4,
                            {{{Stage({{0, 2}}, {"a:0"}, {1}, "F0 F2 B0 B2"),
                               Stage({{3, 5}}, {"a:1"}, {1}, "F0 B0 F2 B2")}},
                             {{Stage({{0, 3}}, {"b:0"}, {1}, "F1 F3 B1 B3"),
                               Stage({{4, 5}}, {"b:1"}, {1}, "F1 B1 F3 B3")}}});
  ExpectParity(LowerPlan(two, planning.graph).value(), planning.graph, "two pipelines");
}

// Breaking one instruction must be noticed by the arithmetic alone.
class MutationTest : public testing::Test {
 protected:
  MutationTest()
      : planning_(MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32", 16, Optimizer::kSgd)) {
    plan_ = HandMade(planning_, 4,
                     {{{Stage({{0, 2}}, {"a:0", "a:1"}, {1, 1}, "F*2 (F B)*2 B*2"),
                        Stage({{3, 5}}, {"b:0", "b:1"}, {1, 1}, "(F B)*4")}}});
    program_ = LowerPlan(plan_, planning_.graph).value();
  }

  void ExpectNoticed(const std::string& what) {
    const Result<Verification> verification = VerifyProgram(program_, planning_.graph, {});
    ASSERT_TRUE(verification.ok()) << verification.error().ToString();
    EXPECT_FALSE(verification.value().ok) << what;
  }

  Planning planning_;
  Plan plan_;
  Program program_;
};

TEST_F(MutationTest, DroppedCollective) {
  for (DeviceProgram& device : program_.devices) {
    auto& body = device.sections[static_cast<size_t>(Section::kBody)];
    const auto first = std::find_if(body.begin(), body.end(), [](const Instruction& in) {
      return in.code == OpCode::kCollective;
    });
    ASSERT_NE(first, body.end());
    body.erase(first);
  }
  ExpectNoticed("dropped collective");
}

TEST_F(MutationTest, SwappedTags) {
  auto& body = program_.devices[2].sections[static_cast<size_t>(Section::kBody)];
  std::vector<Instruction*> receives;
  for (Instruction& in : body) {
    if (in.code == OpCode::kRecv) receives.push_back(&in);
  }
  ASSERT_GE(receives.size(), 2U);
  std::swap(receives[0]->tag, receives[1]->tag);
  ExpectNoticed("swapped tags");
}

TEST_F(MutationTest, DroppedOp) {
  for (Segment& segment : program_.segments) {
    if (segment.phase != SegmentPhase::kBackwardWeight &&
        segment.phase != SegmentPhase::kBackward) {
      continue;
    }
    segment.ops.pop_back();  // a gradient that is no longer computed
    break;
  }
  const Result<Verification> verification = VerifyProgram(program_, planning_.graph, {});
  EXPECT_TRUE(!verification.ok() || !verification.value().ok);
}

// One device does only half of its rows, and nobody the rest.
TEST_F(MutationTest, HalvedShare) {
  const Plan plan = HandMade(planning_, 1, {{{Stage({{0, 5}}, {"a:0", "a:1"}, {1, 1}, "F B")}}});
  program_ = LowerPlan(plan, planning_.graph).value();
  for (Segment& segment : program_.segments) {
    if (segment.rows == Range{0, 8}) segment.rows.end = 4;
  }
  ExpectNoticed("halved share");
}

}  // namespace
}  // namespace heddle
