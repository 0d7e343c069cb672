#include "program/lower/chunk_memory.h"

#include <gtest/gtest.h>

#include "model/autodiff.h"
#include "model/zoo.h"
#include "program/check/check.h"
#include "program/lower/lower.h"

namespace heddle {
namespace {

TEST(ChunkMemoryTest, WeightsStatesAndGradientsOfAnMlp) {
  // fc0: 32*64 + 64, fc1: 64*10 + 10 parameters of four bytes.
  const Graph graph =
      BuildModel("mlp?layers=2&inputs=32&hidden=64&outputs=10", {.batch = 8}).value();
  const ChunkMemory memory = MemoryOf(graph, ChainOf(graph), {.layers = {0, 1}});
  const int64_t parameters = 32 * 64 + 64 + 64 * 10 + 10;
  EXPECT_EQ(memory.weights.value, 4 * parameters);
  EXPECT_EQ(memory.gradients.value, 4 * parameters);
  EXPECT_EQ(memory.states.value, 2 * 4 * parameters);  // Adam
  // Kept for backward per sample: fc0.add.y (for GELU), fc0.gelu.y (for fc1), fc1.add.y (logits),
  // and the logsumexp.
  EXPECT_EQ(memory.in_flight.value, 4 * (64 + 64 + 10 + 1));
}

TEST(ChunkMemoryTest, LowPrecisionKeepsMasterWeights) {
  const ModelOptions options{.batch = 8, .dtype = DType::kBf16};
  const Graph graph = BuildModel("mlp?layers=2&inputs=32&hidden=64&outputs=10", options).value();
  const ChunkMemory memory = MemoryOf(graph, ChainOf(graph), {.layers = {0, 1}});
  const int64_t parameters = 32 * 64 + 64 + 64 * 10 + 10;
  EXPECT_EQ(memory.weights.value, 2 * parameters);
  EXPECT_EQ(memory.states.value, 3 * 4 * parameters);  // Adam and the f32 master
}

// Per microbatch, not per sample: mean and variance of 8 channels, four bytes each.
TEST(ChunkMemoryTest, StatisticsOfABatch) {
  GraphBuilder g(8, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {8, 3, 3});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.Conv2d("conv", x, g.Parameter("w", {8, 8, 1, 1}), {});
  x = g.BatchNorm("bn", x, g.Parameter("scale", {8}), g.Parameter("shift", {8}));
  g.CrossEntropy("xent", g.Mean("mean", x), targets);
  AddTraining(g, {Optimizer::kSgd});
  const Graph graph = g.Finish().value();
  const ChunkMemory memory = MemoryOf(graph, ChainOf(graph), {.layers = {0, 0}});
  EXPECT_EQ(memory.statistics.value, 4 * (8 + 8));
  EXPECT_EQ(memory.in_flight.value, 4 * (8 * 3 * 3 + 8 + 1));  // conv.y, the logits, lse
  EXPECT_EQ(memory.Peak(1, 9) - memory.Peak(1, 8), memory.in_flight + memory.statistics);
  // Backward has them before it makes sums of its own.
  const ChunkSegments segments = SegmentsOf(graph, ChainOf(graph), {.layers = {0, 0}});
  const Bytes workspace{4 * 8 * 3 * 3};  // one sample, for the sums
  EXPECT_EQ(memory.at_work[1].fixed,
            memory.statistics + ScratchOf(graph, segments.segments[1], 0) + workspace);
}

TEST(ChunkMemoryTest, SgdHasNoState) {
  const Graph graph = BuildModel("tiny-mlp", {.batch = 8, .optimizer = Optimizer::kSgd}).value();
  EXPECT_EQ(MemoryOf(graph, ChainOf(graph), {.layers = {0, 3}}).states.value, 0);
}

TEST(ChunkMemoryTest, RecomputationKeepsOnlyWhatCrosses) {
  const Graph graph = BuildModel("tiny-gpt?layers=4", {.batch = 8}).value();
  const LayerChain chain = ChainOf(graph);
  const ChunkMemory kept = MemoryOf(graph, chain, {.layers = {1, 2}});
  const ChunkMemory again = MemoryOf(graph, chain, {.layers = {1, 2}, .recompute = true});
  const int64_t boundary = 64 * 64 * 4;            // seq * hidden elements
  EXPECT_EQ(again.in_flight.value, 2 * boundary);  // the run's input and its output
  EXPECT_GT(kept.in_flight.value, 10 * again.in_flight.value);
}

// Against the checker: never less than what a Program needs, and not much more.
TEST(ChunkMemoryTest, PeakBoundsTheCheckersPeak) {
  for (const char* model : {"tiny-gpt?layers=4", "mlp?layers=6&hidden=512", "gpt?layers=2&seq=128",
                            "tiny-moe", "vgg19?width=8&hidden=64&image=32", "vit?layers=2&image=64",
                            "inception-v3?width=4&image=75",
                            "resnet152?width=8&image=32&blocks1=2&blocks2=2&blocks3=2&blocks4=2"}) {
    for (const bool recompute : {false, true}) {
      for (const int microbatches : {1, 4, 16}) {
        const Graph graph = BuildModel(model, {.batch = 16}).value();
        const LayerChain chain = ChainOf(graph);
        Plan plan;
        plan.strategy = "test";
        plan.request.batch = 16;
        plan.microbatches = microbatches;
        StagePlan stage;
        stage.chunks = {{0, chain.size() - 1}};
        stage.devices = {"a:0"};
        stage.shares = {1};
        stage.recompute = recompute;
        // All forwards first: every microbatch is in flight.
        stage.order =
            ParseOrder("F*" + std::to_string(microbatches) + " B*" + std::to_string(microbatches),
                       "")
                .value();
        plan.pipelines = {{{stage}}};
        const Program program = LowerPlan(plan, graph).value();
        const Verdict verdict = CheckProgram(program, {&graph, {}});
        ASSERT_TRUE(verdict.ok()) << verdict.findings[0].message;
        const ChunkMemory memory =
            MemoryOf(graph, chain, {.layers = stage.chunks[0], .recompute = recompute});
        const Bytes bound = memory.Peak(16 / microbatches, microbatches);
        EXPECT_GE(bound, verdict.memory[0].peak) << model << recompute << microbatches;
        // It counts the largest workspace, which may not be needed where the peak is.
        const double workspace = 2 * 4 * static_cast<double>(kWorkspaceElements);
        EXPECT_LE(static_cast<double>(bound.value),
                  1.2 * static_cast<double>(verdict.memory[0].peak.value) + workspace)
            << model << recompute << microbatches;
      }
    }
  }
}

}  // namespace
}  // namespace heddle
