// The static checker of SPMD plans: good ones pass, and no step can be left out or altered.
#include "program/plan/spmd_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "model/zoo.h"
#include "program/plan/spmd_json.h"
#include "spmd_plans.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Graph Mlp() {
  return BuildModel("tiny-mlp?layers=2", {4, DType::kF32, Optimizer::kAdam, 1.0}).value();
}
Graph Gpt() {
  return BuildModel("tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12",
                    {4, DType::kF32, Optimizer::kAdam, 1.0})
      .value();
}

std::string FaultOf(const SpmdPlan& plan, const Graph& graph) {
  const Status status = CheckSpmdPlan(plan, graph, "plan");
  return status.ok() ? "" : status.error().ToString();
}

const std::vector<std::vector<std::string>> kTwoByTwo = {{"a:0", "a:1"}, {"b:0", "b:1"}};

TEST(SpmdCheckTest, GoodPlans) {
  const Graph graph = Gpt();
  EXPECT_EQ(FaultOf(DataParallel(graph, FlatMesh(3), {0.5, 0, 0.5}), graph), "");
  EXPECT_EQ(FaultOf(ZeroSharded(graph, FlatMesh(2), {0.5, 0.5}), graph), "");
  for (unsigned seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(FaultOf(RandomSpmdPlan(graph, kTwoByTwo, seed), graph), "") << seed;
  }
}

// Conversions are there because somebody needs them: each step is missed.
TEST(SpmdCheckTest, EveryStepIsNeeded) {
  const Graph graph = Mlp();
  for (const SpmdPlan& plan : {DataParallel(graph, FlatMesh(2), {0.5, 0.5}),
                               ZeroSharded(graph, FlatMesh(2), {0.5, 0.5})}) {
    for (size_t k = 0; k < plan.steps.size(); ++k) {
      SpmdPlan without = plan;
      without.steps.erase(without.steps.begin() + static_cast<std::ptrdiff_t>(k));
      EXPECT_NE(FaultOf(without, graph), "") << k;
      if (plan.steps[k].converts()) continue;
      SpmdPlan twice = plan;
      twice.steps.push_back(plan.steps[k]);
      EXPECT_THAT(FaultOf(twice, graph), HasSubstr("twice")) << k;
    }
  }
}

TEST(SpmdCheckTest, EveryConversionAltered) {
  const Graph graph = Mlp();
  const SpmdPlan plan = ZeroSharded(graph, FlatMesh(2), {0.5, 0.5});
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    if (!plan.steps[k].converts()) continue;
    SpmdPlan altered = plan;
    altered.steps[k].to[1] = ShardState::Partial();
    EXPECT_NE(FaultOf(altered, graph), "") << k;
  }
}

TEST(SpmdCheckTest, Says) {
  const Graph graph = Mlp();
  const SpmdPlan plan = DataParallel(graph, FlatMesh(2), {0.5, 0.5});
  SpmdPlan broken = plan;
  broken.mesh[0].push_back("d1");
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("mesh: has device d1 twice"));
  broken = plan;
  broken.ratios[1][0] = {0.5, 0.6};
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("ratios[1][0]: adds up to 1.1"));
  broken = plan;
  broken.storage[0].layout = Inner(7);
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("fc0.w has no dimension 7"));
  broken = plan;
  broken.storage[0].layout[1] = ShardState::Partial();
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("stored as a partial sum"));
  broken = plan;
  broken.storage[0].layout = Inner(0);
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("needs fc0.w as R.R; it is there as R.S0"));
  broken = plan;
  broken.steps[0].rule[1].letter = 'z';
  EXPECT_THAT(FaultOf(broken, graph), HasSubstr("cannot be computed as -.z"));
}

TEST(SpmdConversionTest, AxesOneByOneOrAlike) {
  const auto R = ShardState::Replicated(), P = ShardState::Partial();
  const auto S0 = ShardState::Sharded(0), S1 = ShardState::Sharded(1);
  using Kind = CollectiveKind;
  const auto of = [](const Layout& from, const Layout& to) { return ConversionOf(from, to); };
  EXPECT_EQ(of({R, R}, {R, S0}), SpmdConversion{});
  EXPECT_EQ(of({R, S0}, {R, P}), SpmdConversion{});
  EXPECT_EQ(of({R, P}, {R, R}), (SpmdConversion{true, Kind::kAllReduce, 1}));
  EXPECT_EQ(of({P, R}, {S0, R}), (SpmdConversion{true, Kind::kReduceScatter, 0}));
  EXPECT_EQ(of({S0, S1}, {R, S1}), (SpmdConversion{true, Kind::kAllGather, 0}));
  EXPECT_EQ(of({R, S0}, {R, S1}), (SpmdConversion{true, Kind::kAllToAll, 1}));
  EXPECT_EQ(of({P, P}, {R, R}), (SpmdConversion{true, Kind::kAllReduce, kMeshAxes}));
  EXPECT_EQ(of({S0, S0}, {R, R}), (SpmdConversion{true, Kind::kAllGather, kMeshAxes}));
  EXPECT_EQ(of({S0, S0}, {R, S0}), std::nullopt);  // the inner parts are not of the whole
  EXPECT_EQ(of({P, R}, {R, S0}), std::nullopt);
  EXPECT_EQ(of({R, R}, {R, R}), std::nullopt);
}

// --- JSON ----------------------------------------------------------------------------------------

TEST(SpmdJsonTest, RoundTrip) {
  const Graph graph = Gpt();
  for (unsigned seed = 0; seed < 10; ++seed) {
    SpmdPlan plan = RandomSpmdPlan(graph, kTwoByTwo, seed);
    for (SpmdStep& step : plan.steps) {
      const auto conversion = step.converts() ? ConversionOf(step.from, step.to) : std::nullopt;
      if (conversion && conversion->exchanges) step.algorithm = CollectiveAlgorithm::kTree;
    }
    const Json json = SpmdToJson(plan, graph);
    const Result<SpmdPlan> again = SpmdFromJson(JsonField(json, "plan.json"), graph);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(SpmdToJson(again.value(), graph), json);
    EXPECT_EQ(FaultOf(again.value(), graph), "");
  }
}

TEST(SpmdJsonTest, ReadsAsAPersonWouldWriteIt) {
  const Graph graph = Mlp();
  const Json json = SpmdToJson(DataParallel(graph, FlatMesh(2), {0.75, 0.25}), graph);
  EXPECT_EQ(json["mesh"].dump(), R"([["d0","d1"]])");
  EXPECT_EQ(json["ratios"].dump(), "[[[1.0]],[[0.75,0.25]]]");
  EXPECT_EQ(json["storage"].dump(), "{}");
  EXPECT_EQ(json["steps"][0], "fc0 -.b");
  const std::string steps = json["steps"].dump();
  EXPECT_THAT(steps, HasSubstr(R"("g.fc0.w: R.P -> R.R ring","fc0.w.square -.-")"));
}

std::string ErrorOf(const std::string& step) {
  const Graph graph = Mlp();
  Json json = SpmdToJson(DataParallel(graph, FlatMesh(2), {0.5, 0.5}), graph);
  json["steps"][0] = step;
  const Result<SpmdPlan> plan = SpmdFromJson(JsonField(json, "plan.json"), graph);
  return plan.ok() ? "" : plan.error().ToString();
}

TEST(SpmdJsonTest, BadSteps) {
  EXPECT_THAT(ErrorOf("fc9 -.b"), HasSubstr("plan.json: steps[0]: the model has no op \"fc9\""));
  EXPECT_THAT(ErrorOf("fc0 b"), HasSubstr("\"b\" is no rule"));
  EXPECT_THAT(ErrorOf("fc0"), HasSubstr("is no step"));
  EXPECT_THAT(ErrorOf("nobody: R.R -> R.P"), HasSubstr("the model has no tensor \"nobody\""));
  EXPECT_THAT(ErrorOf("fc0.w: R.R => R.P"), HasSubstr("is no conversion"));
  EXPECT_THAT(ErrorOf("fc0.w: R.Q -> R.R"), HasSubstr("\"R.Q\" is no layout"));
  EXPECT_THAT(ErrorOf("fc0.w: R.S0 -> R.R round"), HasSubstr("\"round\" is unknown"));
}

}  // namespace
}  // namespace heddle
