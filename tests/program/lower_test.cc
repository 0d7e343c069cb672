// Plans of every shape become Programs that the checker accepts with the model at hand.
#include "program/lower/lower.h"

#include "hand_plans.h"
#include "model/skip_graphs.h"
#include "model/zoo.h"

namespace heddle {
namespace {

Graph Mlp(int layers, int64_t batch) {
  return BuildModel(fmt::format("mlp?layers={}&inputs=8&hidden=16&outputs=4", layers),
                    {.batch = batch})
      .value();
}

Graph TinyGpt(int64_t batch) {
  return BuildModel("tiny-gpt?layers=2&hidden=8&heads=2&vocab=16&seq=4", {.batch = batch}).value();
}

// Stages of one device each with the given first layers; the last one ends at `layers`.
PipelinePlan Line(const std::vector<int>& firsts, int layers, int microbatches,
                  bool recompute = false) {
  PipelinePlan pipeline;
  const auto stages = static_cast<int>(firsts.size());
  for (int s = 0; s < stages; ++s) {
    const auto k = static_cast<size_t>(s);
    const int last = (s + 1 < stages ? firsts[k + 1] : layers) - 1;
    pipeline.stages.push_back(StageOf({{firsts[k], last}}, {1},
                                      OneForwardOneBackward(s, stages, microbatches), recompute));
  }
  return pipeline;
}

TEST(LowerTest, OneDevice) {
  EXPECT_EQ(FaultsOf(PlanOf(4, 1, {Line({0}, 3, 1)}), Mlp(3, 4)), "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0}, 3, 4)}), Mlp(3, 8)), "");
}

TEST(LowerTest, AProgramLargerThanAnybodyTrainsIsNotMade) {
  const Plan plan = PlanOf(4, 1, {{{StageOf({{0, 4'000'000}}, {1}, "F B")}}});
  const Result<Program> program = LowerPlan(plan, Mlp(3, 4));
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().ToString().find("4,000,001 layers"), std::string::npos);
}

TEST(LowerTest, TwoStagesAsWritten) {
  Plan plan = PlanOf(2, 2, {Line({0, 1}, 2, 2)});
  plan.request.optimizer = Optimizer::kSgd;
  const Graph graph = Mlp(2, 2);
  ASSERT_EQ(FaultsOf(plan, graph), "");
  const Program program = LowerPlan(plan, graph).value();
  EXPECT_EQ(ListOf(program, 0), R"(recv d.fc0.gelu.y#0 from 1 tag 2
compute F0 #0
send fc0.gelu.y#0 to 1
recv d.fc0.gelu.y#1 from 1 tag 3
compute F0 #1
send fc0.gelu.y#1 to 1 tag 1
compute B0 #0
compute B0 #1 acc
compute U1
)");
  EXPECT_EQ(ListOf(program, 1), R"(recv fc0.gelu.y#0 from 0
recv fc0.gelu.y#1 from 0 tag 1
compute F1 #0
compute B1 #0
send d.fc0.gelu.y#0 to 0 tag 2
compute F1 #1
compute B1 #1 acc
send d.fc0.gelu.y#1 to 0 tag 3
compute U0
free d.fc0.gelu.y#0
free d.fc0.gelu.y#1
)");
}

TEST(LowerTest, OneForwardOneBackward) {
  EXPECT_EQ(FaultsOf(PlanOf(16, 8, {Line({0, 2, 3, 5}, 6, 8)}), Mlp(6, 16)), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 4, {Line({0, 1, 3}, 4, 4)}), TinyGpt(4)), "");
}

TEST(LowerTest, FewerMicrobatchesThanStages) {
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0, 1, 2, 3}, 4, 2)}), Mlp(4, 4)), "");
}

TEST(LowerTest, Gpipe) {
  EXPECT_EQ(FaultsOf(PlanOf(16, 16,
                            {{{StageOf({{0, 1}}, {1}, Gpipe(16)), StageOf({{2, 3}}, {1}, Gpipe(16)),
                               StageOf({{4, 5}}, {1}, Gpipe(16))}}}),
                     Mlp(6, 16)),
            "");
}

TEST(LowerTest, BackwardInAnotherOrderThanForward) {
  EXPECT_EQ(FaultsOf(PlanOf(8, 8,
                            {{{StageOf({{0, 1}}, {1}, "F*8 B7 B6 B5 B4 B3 B2 B1 B0"),
                               StageOf({{2, 3}}, {1}, "F*8 B*8")}}}),
                     Mlp(4, 8)),
            "");
}

// 3:1 feeds 1:1, as in the golden Program.
TEST(LowerTest, ReplicatedStages) {
  EXPECT_EQ(
      FaultsOf(
          PlanOf(8, 2,
                 {{{StageOf({{0, 1}}, {3, 1}, "F*2 B*2"), StageOf({{2, 3}}, {1, 1}, "(F B)*2")}}}),
          Mlp(4, 8)),
      "");
  EXPECT_EQ(FaultsOf(PlanOf(12, 3,
                            {{{StageOf({{0, 1}}, {1}, "F*2 (F B) B*2"),
                               StageOf({{2, 2}}, {2, 1, 5}, "F (F B)*2 B"),
                               StageOf({{3, 3}}, {1, 1}, "(F B)*3")}}}),
                     TinyGpt(12)),
            "");
}

TEST(LowerTest, UnevenMicrobatches) {
  EXPECT_EQ(FaultsOf(PlanOf(10, 4, {Line({0, 2}, 4, 4)}), Mlp(4, 10)), "");  // 2 3 2 3 rows
  EXPECT_EQ(FaultsOf(PlanOf(7, 3,
                            {{{StageOf({{0, 1}}, {2, 1}, "F (F B)*2 B"),
                               StageOf({{2, 3}}, {1, 1, 1}, "(F B)*3")}}}),
                     Mlp(4, 7)),
            "");
}

// A device without samples still takes part in the sums.
TEST(LowerTest, ZeroRowShares) {
  EXPECT_EQ(FaultsOf(PlanOf(4, 2,
                            {{{StageOf({{0, 1}}, {1, 0}, "F*2 B*2"),
                               StageOf({{2, 3}}, {0, 1, 1}, "(F B)*2")}}}),
                     Mlp(4, 4)),
            "");
  // One row for two devices: the second has none in any microbatch.
  EXPECT_EQ(FaultsOf(PlanOf(3, 3, {{{StageOf({{0, 3}}, {1, 1}, "(F B)*3")}}}), Mlp(4, 3)), "");
  // Rows of some microbatches only: 1 2 1 2 rows over two devices.
  EXPECT_EQ(FaultsOf(PlanOf(6, 4, {{{StageOf({{0, 3}}, {1, 1}, "(F B)*4")}}}), Mlp(4, 6)), "");
}

// Stage 0 has layers 0 and 2, stage 1 layers 1 and 3.
TEST(LowerTest, InterleavedChunks) {
  const std::vector<LayerRun> first = {{0, 0}, {2, 2}}, second = {{1, 1}, {3, 3}};
  EXPECT_EQ(
      FaultsOf(
          PlanOf(8, 4, {{{StageOf(first, {1}, Gpipe(4, 2)), StageOf(second, {1}, Gpipe(4, 2))}}}),
          Mlp(4, 8)),
      "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4,
                            {{{StageOf(first, {2, 1}, Gpipe(4, 2)),
                               StageOf(second, {1, 1}, Gpipe(4, 2), true)}}}),
                     TinyGpt(8)),
            "");
}

// Stage 1 has layers 1 and 2, which follow each other: no message, no copy.
TEST(LowerTest, VShapedChunks) {
  const PipelinePlan v{{StageOf({{0, 0}, {3, 3}}, {1}, "F*2 F.1*2 B.1*2 B*2"),
                        StageOf({{1, 1}, {2, 2}}, {1}, "F F.1 F F.1 B.1 B B.1 B")}};
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {v}), Mlp(4, 4)), "");
  PipelinePlan recomputed = v;
  for (StagePlan& stage : recomputed.stages) stage.recompute = true;
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {recomputed}), Mlp(4, 4)), "");
  PipelinePlan replicated = v;
  replicated.stages[1].shares = {1, 2};
  EXPECT_EQ(FaultsOf(PlanOf(6, 2, {replicated}), Mlp(4, 6)), "");
}

TEST(LowerTest, Recomputation) {
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 2}, 4, 4, true)}), Mlp(4, 8)), "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 1, 2, 3}, 4, 4, true)}), TinyGpt(8)), "");
}

TEST(LowerTest, RecomputationSavesMemory) {
  const Graph graph =
      BuildModel("mlp?layers=9&inputs=8&hidden=8&outputs=8", {.batch = 512}).value();
  const auto peak = [&](bool recompute) {
    const PipelinePlan pipeline{
        {StageOf({{0, 7}}, {1}, "F*8 B*8", recompute), StageOf({{8, 8}}, {1}, "(F B)*8")}};
    return CheckProgram(LowerPlan(PlanOf(512, 8, {pipeline}), graph).value()).memory[0].peak.value;
  };
  EXPECT_LT(peak(true), peak(false) / 2);
}

TEST(LowerTest, SplitBackward) {
  EXPECT_EQ(FaultsOf(PlanOf(8, 4,
                            {{{StageOf({{0, 1}}, {1}, "F*2 (F I)*2 I*2 W*4"),
                               StageOf({{2, 3}}, {1}, "(F I W)*4")}}}),
                     Mlp(4, 8)),
            "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4,
                            {{{StageOf({{0, 1}}, {1, 1}, "F*4 I*4 W*4"),
                               StageOf({{2, 3}}, {1, 2}, "F*4 I*4 W*4", true)}}}),
                     TinyGpt(8)),
            "");
}

// Some microbatches in two parts, others whole.
TEST(LowerTest, PartlySplitBackward) {
  EXPECT_EQ(FaultsOf(PlanOf(8, 4,
                            {{{StageOf({{0, 1}}, {1}, "F*2 (F I)*2 B2 B3 W*2"),
                               StageOf({{2, 3}}, {1}, "(F B)*2 F2 I2 W2 F3 I3 W3")}}}),
                     Mlp(4, 8)),
            "");
}

// Two pipelines of different shapes, each with half of the microbatches.
TEST(LowerTest, SeveralPipelines) {
  const PipelinePlan one{{StageOf({{0, 3}}, {1}, "(F B)*2")}};
  const PipelinePlan two{
      {StageOf({{0, 1}}, {1}, "F2 F3 B2 B3"), StageOf({{2, 3}}, {2, 1}, "F2 B2 F3 B3")}};
  EXPECT_EQ(FaultsOf(PlanOf(12, 4, {one, two}), Mlp(4, 12)), "");
  EXPECT_EQ(FaultsOf(PlanOf(12, 4, {one, two}), TinyGpt(12)), "");
}

// Small buckets: the sums of the last layers start before backward has reached the first.
TEST(LowerTest, BucketsOfEverySize) {
  for (const int64_t bucket : {1, 500, 2000, 1 << 20}) {
    Plan plan = PlanOf(8, 2, {{{StageOf({{0, 5}}, {1, 1}, "(F B)*2")}}});
    plan.bucket = Bytes{bucket};
    EXPECT_EQ(FaultsOf(plan, Mlp(6, 8)), "") << bucket;
  }
}

// The table is used by the first and the last layer: in one stage, in two, in two chunks of one.
TEST(LowerTest, TiedWeights) {
  const Graph graph = TinyGpt(4);
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0}, 4, 2)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0, 2}, 4, 2)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2,
                            {{{StageOf({{0, 0}, {3, 3}}, {1}, Gpipe(2, 2)),
                               StageOf({{1, 2}}, {1}, Gpipe(2))}}}),
                     graph),
            "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2,
                            {{{StageOf({{0, 0}, {3, 3}}, {1, 1}, Gpipe(2, 2)),
                               StageOf({{1, 2}}, {1}, Gpipe(2))}}}),
                     graph),
            "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2,
                            {{{StageOf({{0, 0}, {3, 3}}, {1, 1}, "F*2 F.1*2 I.1*2 I*2 W.1*2 W*2"),
                               StageOf({{1, 2}}, {1}, "F*2 I*2 W*2")}}}),
                     graph),
            "");
}

// x0 is used by layer 3, x1 by layer 4: stages in between pass them on.
TEST(LowerTest, SkipConnectionsOverStages) {
  const Graph graph = SkipGraph({{}, {}, {}, {0}, {1}, {}}, 8);
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 1, 2, 3, 4, 5}, 6, 4)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 2, 4}, 6, 4, true)}), graph), "");
  EXPECT_EQ(
      FaultsOf(PlanOf(8, 2,
                      {{{StageOf({{0, 1}}, {3, 1}, "F*2 B*2"), StageOf({{2, 2}}, {1, 1}, "F*2 B*2"),
                         StageOf({{3, 5}}, {1, 2}, "F I F I W*2")}}}),
               graph),
      "");
}

TEST(LowerTest, SkipConnectionsOverInterleavedStages) {
  const Graph graph = SkipGraph({{}, {}, {}, {0}, {1}, {0, 2}}, 8);
  const PipelinePlan by_turns{{StageOf({{0, 0}, {2, 2}, {4, 4}}, {1}, Gpipe(2, 3)),
                               StageOf({{1, 1}, {3, 3}, {5, 5}}, {1}, Gpipe(2, 3))}};
  EXPECT_EQ(FaultsOf(PlanOf(8, 2, {by_turns}), graph), "");
  PipelinePlan shared = by_turns;
  shared.stages[0].shares = {1, 1};
  shared.stages[1].recompute = true;
  EXPECT_EQ(FaultsOf(PlanOf(8, 2, {shared}), graph), "");
  const PipelinePlan v{{StageOf({{0, 0}, {5, 5}}, {1}, Gpipe(2, 2)),
                        StageOf({{1, 1}, {4, 4}}, {1}, Gpipe(2, 2)),
                        StageOf({{2, 2}, {3, 3}}, {1}, Gpipe(2, 2))}};
  EXPECT_EQ(FaultsOf(PlanOf(8, 2, {v}), graph), "");
}

// Every layer adds the outputs of all before it: many tensors cross every cut.
TEST(LowerTest, DenseConnections) {
  std::vector<std::vector<int>> skips(24);
  for (int l = 1; l < 24; ++l) {
    for (int from = 0; from + 1 < l; ++from) skips[static_cast<size_t>(l)].push_back(from);
  }
  const Graph graph = SkipGraph(skips, 4, 2);
  PipelinePlan pipeline{{StageOf({{0, 19}, {21, 21}, {23, 23}}, {1}, Gpipe(2, 3)),
                         StageOf({{20, 20}, {22, 22}}, {1}, Gpipe(2, 2))}};
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {pipeline}), graph), "");
}

// The first layer has no weights: nothing of it runs backward.
TEST(LowerTest, LayersWithoutBackward) {
  GraphBuilder g(4, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {8});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("normalise");
  x = g.Relu("normalise", x);
  g.BeginLayer("fc");
  x = g.Einsum("fc", "bk,kn->bn", x, g.Parameter("w", {8, 8}));
  g.BeginLayer("loss");
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {Optimizer::kSgd});
  const Graph graph = g.Finish().value();
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0}, 3, 2)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0, 2}, 3, 2)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0, 1, 2}, 3, 2)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2, {Line({0, 1, 2}, 3, 2, true)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(4, 2,
                            {{{StageOf({{0, 0}, {1, 1}}, {1}, Gpipe(2, 2)),
                               StageOf({{2, 2}}, {1}, Gpipe(2))}}}),
                     graph),
            "");
}

TEST(LowerTest, OpaqueLayers) {
  GraphBuilder g(8, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {10});
  std::vector<TensorId> outputs;
  for (int l = 0; l < 5; ++l) {
    const std::string name = "l" + std::to_string(l);
    g.BeginLayer(name);
    std::vector<TensorId> inputs = {x};
    if (l == 3) inputs.push_back(outputs[0]);
    x = g.Opaque(name, inputs, 10 + l, l % 2 == 0 ? 0 : 100, {Seconds{1}, Seconds{2}, 4});
    outputs.push_back(x);
  }
  AddTraining(g, {Optimizer::kAdam});
  const Graph graph = g.Finish().value();
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 1, 2, 3, 4}, 5, 4)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 4, {Line({0, 2}, 5, 4, true)}), graph), "");
  EXPECT_EQ(FaultsOf(PlanOf(8, 2, {{{StageOf({{0, 4}}, {2, 1}, "F*2 I*2 W*2")}}}), graph), "");
}

}  // namespace
}  // namespace heddle
