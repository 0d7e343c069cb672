// Pipelines whose stages are SPMD programs on meshes of any shape compute what one device would, in
// fp64: losses, gradients and parameters after three steps.

#include <gtest/gtest.h>

#include "plan/stage_plans.h"
#include "program/plan/spmd_check.h"
#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=2&hidden=8&heads=2&seq=4&vocab=12&tied=0";  // 4 layers
constexpr char kTied[] = "tiny-gpt?layers=2&hidden=8&heads=2&seq=4&vocab=12&tied=1";
constexpr char kMlp[] = "tiny-mlp?layers=4";
constexpr char kMoe[] = "tiny-moe?layers=2&hidden=8&heads=2&seq=4&vocab=12&experts=4";
constexpr char kResnet[] =
    "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1";

const MeshRatios kEven22 = {{{{0.5, 0.5}}, {{0.5, 0.5}}}};

Graph Model(const char* spec, int64_t batch) { return Tiny(spec, batch, Optimizer::kAdam, 0); }

// Columns, then rows; heads; the table by its rows.
Layout Megatron(const Tensor& tensor) {
  const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
  if (has("qkv") && tensor.shape.size() == 4) return Inner(2);
  if (has("qkv") && tensor.shape.size() == 3) return Inner(1);
  if (has("fc1.w")) return Inner(1);
  if (has("fc1.b") || has("fc2.w") || has("proj.w") || has("tokens")) return Inner(0);
  return kEverywhere;
}
Layout Whole(const Tensor&) { return kEverywhere; }

Program LoweredStages(const Plan& plan, const Graph& graph, const std::string& what) {
  const Status valid = ValidatePlan(plan, static_cast<int>(graph.layers().size()), "plan");
  EXPECT_TRUE(valid.ok()) << what << ": " << valid.error().ToString();
  Result<Program> program = LowerPlan(plan, graph);
  EXPECT_TRUE(program.ok()) << what << ": " << program.error().ToString();
  if (!program.ok()) return {};
  const std::string text = PrintProgram(program.value());
  const Result<Program> again = ParseProgram(text, "lowered");
  EXPECT_TRUE(again.ok()) << what << ": " << again.error().ToString();
  const Verdict verdict = CheckProgram(program.value(), {&graph, {}});
  EXPECT_TRUE(verdict.ok()) << what << ": " << verdict.findings[0].message;
  return std::move(program).value();
}

void ExpectStagesParity(const Graph& graph, const std::vector<TestStage>& stages,
                        int64_t microbatches, const std::string& what) {
  const Program program = LoweredStages(StagesPlan(graph, stages, microbatches), graph, what);
  if (testing::Test::HasFailure()) return;
  VerifyOptions options;
  options.steps = 3;
  const Result<Verification> verification = VerifyProgram(program, graph, options);
  ASSERT_TRUE(verification.ok()) << what << ": " << verification.error().ToString();
  EXPECT_TRUE(verification.value().ok) << what << ": " << verification.value().worst;
}

SpmdPlan Even(const Graph& graph, const std::string& name,
              const std::function<Layout(const Tensor&)>& layout_of) {
  return RowsAndColumns(graph, NamedMesh(name, 2, 2), kEven22, layout_of);
}

// Two replicas, weights in two parts, two stages.
TEST(StageVerifyTest, TwoByTwoByTwo) {
  const Graph graph = Model(kGpt, 8);
  const Graph part = Model(kGpt, 2);
  ExpectStagesParity(graph,
                     {{{{0, 1}}, Even(part, "a", Megatron)}, {{{2, 3}}, Even(part, "b", Megatron)}},
                     4, "2 x 2 x 2");
}

TEST(StageVerifyTest, LayersComputedAgain) {
  const Graph graph = Model(kGpt, 8);
  const Graph part = Model(kGpt, 2);
  ExpectStagesParity(
      graph,
      {{{{0, 1}}, Even(part, "a", Megatron), {1}}, {{{2, 3}}, Even(part, "b", Megatron), {2}}}, 4,
      "blocks again");
}

TEST(StageVerifyTest, StagesOnMeshesOfOtherShapes) {
  const Graph graph = Model(kGpt, 8);
  const Graph part = Model(kGpt, 4);
  const SpmdPlan square = Even(part, "a", Megatron);
  const SpmdPlan row =
      RowsAndColumns(part, NamedMesh("b", 1, 3), {{{{1.0}}, {{0.5, 0.3, 0.2}}}}, Megatron);
  ExpectStagesParity(graph, {{{{0, 1}}, square}, {{{2, 3}}, row}}, 2, "2 x 2 feeds 1 x 3");
  const SpmdPlan samples = DataParallel(part, {{"c:0", "c:1", "c:2"}}, {0.5, 0.25, 0.25});
  const SpmdPlan five = RowsAndColumns(part, NamedMesh("d", 1, 5),
                                       {{{{1.0}}, {{0.3, 0.1, 0.2, 0.2, 0.2}}}}, Megatron);
  ExpectStagesParity(graph, {{{{0, 1}}, samples}, {{{2, 3}}, five}}, 2, "3 feed 5");
  ExpectStagesParity(graph, {{{{0, 1}}, five}, {{{2, 3}}, samples}}, 2, "5 feed 3");
}

TEST(StageVerifyTest, SomeHaveNoSamples) {
  const Graph graph = Model(kMlp, 6);
  const Graph part = Model(kMlp, 3);
  ExpectStagesParity(graph,
                     {{{{0, 1}}, DataParallel(part, {{"a:0", "a:1", "a:2"}}, {0.6, 0, 0.4})},
                      {{{2, 3}}, DataParallel(part, {{"b:0", "b:1"}}, {0, 1})}},
                     2, "empty parts");
}

TEST(StageVerifyTest, OptimizerStateInParts) {
  const Graph graph = Model(kGpt, 8);
  const Graph part = Model(kGpt, 4);
  const auto divided = [](const Tensor& tensor) {
    Layout layout = Megatron(tensor);
    if (tensor.shape[0] >= 4 && layout == kEverywhere) layout[0] = ShardState::Sharded(0);
    return layout;
  };
  ExpectStagesParity(graph,
                     {{{{0, 1}}, Even(part, "a", divided)}, {{{2, 3}}, Even(part, "b", divided)}},
                     2, "zero");
}

TEST(StageVerifyTest, SeveralRunsOfLayers) {
  const Graph graph = Model(kGpt, 8);
  const Graph part = Model(kGpt, 2);
  const auto order = [](const char* text) { return ParseOrder(text, "").value(); };
  const std::string first = "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3";
  const std::string second = "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3";
  ExpectStagesParity(graph,
                     {{{{0, 0}, {2, 2}}, Even(part, "a", Megatron), {2}, order(first.c_str())},
                      {{{1, 1}, {3, 3}}, Even(part, "b", Megatron), {1}, order(second.c_str())}},
                     4, "interleaved");
  ExpectStagesParity(graph,
                     {{{{0, 0}, {3, 3}},
                       Even(part, "a", Megatron),
                       {},
                       order("F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1 "
                             "F2 F3 F2.1 B2.1 F3.1 B3.1 B2 B3")},
                      {{{1, 2}}, Even(part, "b", Megatron), {}, order("F0 F1 B0 B1 F2 F3 B2 B3")}},
                     4, "V-shaped");
}

TEST(StageVerifyTest, TiedEmbedding) {
  const Graph graph = Model(kTied, 8);
  const Graph part = Model(kTied, 2);
  ExpectStagesParity(graph,
                     {{{{0, 1}}, Even(part, "a", Megatron)}, {{{2, 3}}, Even(part, "b", Megatron)}},
                     4, "tied");
  ExpectStagesParity(graph,
                     {{{{0, 1}}, Even(part, "a", Whole)}, {{{2, 3}}, Even(part, "b", Whole)}}, 4,
                     "tied, whole");
}

TEST(StageVerifyTest, ExpertsAndSkips) {
  const Graph moe = Model(kMoe, 8);
  const Graph part = Model(kMoe, 4);
  const auto experts = [](const Tensor& tensor) {
    const bool expert = tensor.shape.size() >= 2 && tensor.shape[0] == 4;
    return expert && tensor.name.find(".fc") != std::string::npos ? Inner(0) : kEverywhere;
  };
  const int last = static_cast<int>(moe.layers().size()) - 1;
  ExpectStagesParity(
      moe, {{{{0, 1}}, Even(part, "a", experts)}, {{{2, last}}, Even(part, "b", experts)}}, 2,
      "experts");
}

// Any rule for any op, any ratios, any storage. Parts that would have to be joined along two axes
// are refused.
TEST(StageVerifyTest, AnyLayouts) {
  int tried = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    const Graph graph = Model(seed % 2 == 0 ? kMlp : kGpt, 6);
    const Graph part = Model(seed % 2 == 0 ? kMlp : kGpt, 3);
    const size_t rows = 1 + seed % 3, columns = 1 + seed / 3 % 3;
    const SpmdPlan first = RandomSpmdPlan(part, NamedMesh("a", rows, 2), seed);
    const SpmdPlan second = RandomSpmdPlan(part, NamedMesh("b", 2, columns), seed + 100);
    if (!CheckSpmdPlan(first, part, "first").ok() || !CheckSpmdPlan(second, part, "second").ok()) {
      continue;
    }
    const auto cut = static_cast<int32_t>(seed % 3);
    const auto last = static_cast<int32_t>(graph.layers().size()) - 1;
    std::vector<int32_t> again;
    if (seed % 4 == 1) again = {cut};
    const std::vector<TestStage> stages = {{{{0, cut}}, first, again}, {{{cut + 1, last}}, second}};
    const Result<Program> lowered = LowerPlan(StagesPlan(graph, stages, 2), graph);
    if (!lowered.ok() && lowered.error().what.find("along two axes") != std::string::npos) {
      continue;
    }
    ++tried;
    ExpectStagesParity(graph, stages, 2, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
  EXPECT_GE(tried, 8);
}

}  // namespace
}  // namespace heddle
