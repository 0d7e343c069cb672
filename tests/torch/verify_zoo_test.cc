// Every family of the zoo, small, under every planner and every kind of stage: equal to one device.

#include <gtest/gtest.h>

#include "choose/planners.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

struct Family {
  std::string name, model;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::vector<Family> Families() {
  return {
      {"mlp", "tiny-mlp?layers=5&dropout=20"},
      {"gpt", "tiny-gpt?layers=3&hidden=16&heads=2&seq=6&vocab=32&dropout=10"},
      {"bert", "bert-base?layers=3&hidden=16&heads=2&seq=6&vocab=32"},
      {"transformer", "transformer?layers=1&hidden=16&wide=24&heads=2&seq=5&vocab=32"},
      {"moe", "tiny-moe?layers=3&hidden=16&heads=2&seq=8&vocab=32&every=1&capacity=75"},
      {"vit", "vit?layers=3&hidden=16&heads=2&image=12&patch=4&classes=5&dropout=10"},
      {"vgg", "vgg19?width=2&hidden=8&image=32&classes=5"},
      {"resnet", "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1"},
      {"bridge", "bridge?layers=2&width=4&channels=2&image=5&classes=5"},
      {"inception", "inception-v3?width=1&image=139&classes=5"},
  };
}

class VerifyZooTest : public testing::TestWithParam<Family> {
 protected:
  static constexpr int64_t kBatch = 13;
  static constexpr double kClip = 0.05;  // below the norms that occur
};

TEST_P(VerifyZooTest, EveryPlanner) {
  for (const Planner& planner : Planners()) {
    const std::string& strategy = planner.name;
    const bool interleaved = strategy == "interleaved";
    // Those that do not wait for each other cannot clip; asynchronous stages update after each
    // microbatch.
    const bool async = strategy == "async";
    const bool waits = !async && strategy != "local";
    Planning planning = MakePlanning(GetParam().model, kBatch, Optimizer::kAdamW,
                                     async         ? 1
                                     : interleaved ? 4
                                                   : 2,
                                     waits ? kClip : 0);
    planning.request.every = 2;
    const Result<Plan> plan = MakePlan(strategy, planning);
    if (interleaved && !plan.ok()) continue;  // too few layers for two chunks a device
    if (strategy == "expert-parallel" && !plan.ok()) continue;  // no experts
    ASSERT_TRUE(plan.ok()) << plan.error().ToString();
    const int64_t steps = plan.value().local ? 1 : 3;  // a round has several
    ExpectParity(LowerPlan(plan.value(), planning.graph).value(), planning.graph,
                 strategy + " " + GetParam().model, WeightAges(plan.value(), planning.chain.size()),
                 plan.value().local, steps);
  }
}

TEST_P(VerifyZooTest, UnevenSharesRecomputationAndSplitBackward) {
  const Planning planning = MakePlanning(GetParam().model, kBatch, Optimizer::kMomentum, 4, kClip);
  const auto last = static_cast<int32_t>(planning.chain.layers.size()) - 1;
  const int32_t middle = last / 2;
  Plan plan = HandMade(planning, 4,
                       {{{Stage({{0, middle}}, {"a:0", "a:1"}, {3, 1}, "F*2 (F B)*2 B*2"),
                          Stage({{middle + 1, last}}, {"b:0", "b:1"}, {1, 1}, "(F B)*4")}}});
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "3:1 to 1:1");
  plan.pipelines[0].stages[0].recompute = true;
  plan.pipelines[0].stages[1].recompute = true;
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "recomputed");
  plan = HandMade(planning, 4,
                  {{{Stage({{0, middle}}, {"a:0"}, {1}, "F*2 (F I)*2 W I W I W*2"),
                     Stage({{middle + 1, last}}, {"b:0", "b:1"}, {2, 1}, "(F I W)*4")}}});
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, "split backward");
}

INSTANTIATE_TEST_SUITE_P(Families, VerifyZooTest, testing::ValuesIn(Families()),
                         [](const auto& family) { return family.param.name; });

// Gradients through servers: replicas, pipelines side by side, tied weights.
TEST(VerifyServersTest, EqualOneDevice) {
  PlanRequest options;
  options.model = "tiny-gpt?layers=4&hidden=16&heads=2&seq=6&vocab=32";
  options.batch = 13;
  options.sync = GradientSync::kServers;
  const Planning planning = Planning::Make(options, Mixed4(), nullptr).value();
  for (const char* strategy : {"dp", "dp-proportional", "pipeline", "hetpipe", "1f1b", "zb-h1"}) {
    const Result<Plan> plan = MakePlan(strategy, planning);
    ASSERT_TRUE(plan.ok()) << plan.error().ToString();
    ExpectParity(LowerPlan(plan.value(), planning.graph).value(), planning.graph, strategy);
  }
  for (const char* strategy : {"async", "local", "zero"}) {
    EXPECT_EQ(MakePlan(strategy, planning).error().kind, ErrorKind::kInfeasible) << strategy;
  }
  Plan plan = HandMade(planning, 2,
                       {{{Stage({{0, 2}}, {"a:0", "a:1", "b:0"}, {2, 0, 1}, "(F B)*2"),
                          Stage({{3, 5}}, {"b:1"}, {1}, "(F B)*2")}}});
  plan.request.sync = GradientSync::kServers;
  const Program program = LowerPlan(plan, planning.graph).value();
  ExpectParity(program, planning.graph, "a device without samples");
  // A server that adds wrongly is noticed.
  Program mutant = program;
  for (Segment& segment : mutant.segments) {
    if (segment.name.starts_with("S")) segment.scale = 0.5;
  }
  EXPECT_FALSE(VerifyProgram(mutant, planning.graph, {}).value().ok);
}

// Clipping must see every gradient once, wherever it is.
TEST(VerifyClipTest, ANormThatForgetsAStageIsNoticed) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32", 16, Optimizer::kSgd, 4, 0.01);
  const Plan plan = HandMade(planning, 4,
                             {{{Stage({{0, 2}}, {"a:0"}, {1}, "F*2 (F B)*2 B*2"),
                                Stage({{3, 5}}, {"b:0", "b:1"}, {1, 1}, "(F B)*4")}}});
  Program program = LowerPlan(plan, planning.graph).value();
  ExpectParity(program, planning.graph, "clipped");
  for (Segment& segment : program.segments) {
    if (segment.name == "N1") segment.ops.pop_back();
  }
  const Result<Verification> verification = VerifyProgram(program, planning.graph, {});
  ASSERT_TRUE(verification.ok());
  EXPECT_FALSE(verification.value().ok);
}

}  // namespace
}  // namespace heddle
