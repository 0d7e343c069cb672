// Memory that a segment needs inside, against numbers added up by hand; and what single ops need
// beside their operands.
#include <gtest/gtest.h>

#include "hand_plans.h"
#include "model/autodiff.h"
#include "model/zoo.h"
#include "program/lower/chunk_memory.h"
#include "program/lower/chunk_segments.h"

namespace heddle {
namespace {

ChunkSegments WholeOf(const Graph& graph, bool recompute = false) {
  const auto last = static_cast<int32_t>(graph.layers().size()) - 1;
  return SegmentsOf(graph, ChainOf(graph), {.layers = {0, last}, .recompute = recompute});
}

int64_t Scratch(const Graph& graph, size_t segment, int64_t rows) {
  return ScratchOf(graph, WholeOf(graph).segments[segment], rows).value;
}

// x [4] times w [4, 100] and a bias, an activation, down to 2 classes.
Graph Wide(Optimizer optimizer, const std::string& activation) {
  GraphBuilder g(8, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {4});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.Einsum("up", "bk,kn->bn", x, g.Parameter("up.w", {4, 100}));
  x = g.BiasAdd("add", "bn,n->bn", x, g.Parameter("add.bias", {100}));
  if (activation == "relu") x = g.Relu("f", x);
  if (activation == "gelu") x = g.Gelu("f", x);
  x = g.Einsum("down", "bn,nv->bv", x, g.Parameter("down.w", {100, 2}));
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {optimizer});
  return g.Finish().value();
}

//   op     floats per sample                                     and once
//   up     x 4, up.y 100
//   add    add.y in place of up.y
//   f      f.y in place of add.y
//   down   f.y 100, down.y 2
//   xent   f.y 100, down.y 2, lse 1, targets 2, workspace 2      loss 1
TEST(ScratchTest, ForwardInPlace) {
  const Graph graph = Wide(Optimizer::kSgd, "relu");
  EXPECT_EQ(Scratch(graph, 0, 1), 4 * (100 + 2 + 1 + 2 + 1 + 2));
  EXPECT_EQ(Scratch(graph, 0, 8), 4 * (8 * (100 + 2 + 1 + 2 + 2) + 1));
}

// GELU needs its input in backward: it cannot write over it, and both are kept.
TEST(ScratchTest, ForwardThatKeepsItsInput) {
  const Graph graph = Wide(Optimizer::kSgd, "gelu");
  EXPECT_EQ(Scratch(graph, 0, 8), 4 * (8 * (200 + 2 + 1 + 2 + 2) + 1));
}

// Without an activation the bias writes over the product, which nobody reads again.
TEST(ScratchTest, BiasInPlace) {
  const Graph graph = Wide(Optimizer::kSgd, "none");
  EXPECT_EQ(Scratch(graph, 0, 8), 4 * (8 * (100 + 2 + 1 + 2 + 2) + 1));
}

// h is added to tanh(h): tanh cannot write over it, and the sum not over tanh.y, which backward
// reads. At the sum there are three of 100; behind it h goes.
TEST(ScratchTest, NotInPlaceOfWhatIsReadAgain) {
  GraphBuilder g(8, DType::kF32);
  const TensorId x = g.Input("x", DType::kF32, {4});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  const TensorId h = g.Einsum("up", "bk,kn->bn", x, g.Parameter("up.w", {4, 100}));
  const TensorId sum = g.Add("sum", g.Tanh("tanh", h), h);
  const TensorId y = g.Einsum("down", "bn,nv->bv", sum, g.Parameter("down.w", {100, 2}));
  g.CrossEntropy("xent", y, targets);
  AddTraining(g, {Optimizer::kSgd});
  EXPECT_EQ(Scratch(g.Finish().value(), 0, 8), 4 * 8 * 300);
}

// Backward consumes f.y, the logits and lse, which were there before: what it needs is beyond them.
//
//   op         floats per sample beyond what was live before        and once
//   xent.dx    targets 2, d.down.y in place of the logits
//   down.da    d.f.y 100, less the lse that has gone: 99
//   down.db    the same 99; f.y is still needed                     g.down.w 200
//   f.dx       d.add.y in place of d.f.y; d.down.y has gone
//   add.dbias  f.y has gone                                         g.add.bias 100
//   up.db      x 4                                                  g.up.w 400
//
// When the gradients appear and stay the peak is at down.db: 99 of each sample, and the 200. When
// they are there, products add to them without a temporary: 99 of each sample.
TEST(ScratchTest, BackwardInPlace) {
  const Graph graph = Wide(Optimizer::kSgd, "relu");
  const SegmentTemplate backward = WholeOf(graph).segments[1];
  ASSERT_EQ(backward.phase, SegmentPhase::kBackward);
  EXPECT_EQ(FirstScratchOf(graph, backward, 8).value, 4 * (8 * (100 - 1) + 200));
  EXPECT_EQ(ScratchOf(graph, backward, 8).value, 4 * 8 * (100 - 1));
}

// h is added to relu(h): the gradient of the sum is read by ReLU's backward and once more behind
// it, so that ReLU's backward cannot write over it.
//
//   op         floats per sample beyond what was live before
//   xent.dx    targets 2, d.mean.y in place of the logits
//   mean.dx    d.sum.y 100, less the lse that has gone: 99
//   f.dx       d.h 100 more, less d.mean.y: 197; behind it f.y goes
//   f.dx.sum   in place of d.sum.y: 97
TEST(ScratchTest, BackwardNotInPlaceOfWhatIsReadAgain) {
  GraphBuilder g(8, DType::kF32);
  const TensorId x = g.Input("x", DType::kF32, {1, 5, 10});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  const TensorId h = g.Conv2d("conv", x, g.Parameter("w", {2, 1, 1, 1}), {});
  const TensorId sum = g.Add("sum", g.Relu("f", h), h);
  g.CrossEntropy("xent", g.Mean("mean", sum), targets);
  AddTraining(g, {Optimizer::kSgd});
  EXPECT_EQ(Scratch(g.Finish().value(), 1, 8), 4 * 8 * 197);
}

// Statistics do not grow with the samples.
TEST(ScratchTest, BatchStatistics) {
  GraphBuilder g(8, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {50, 2, 2});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.BatchNorm("bn", x, g.Parameter("scale", {50}), g.Parameter("shift", {50}));
  x = g.Mean("mean", x);
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {Optimizer::kSgd});
  const Graph graph = g.Finish().value();
  // x 200 floats of each sample, mean 50, variance 50, bn.y 200 of each sample.
  EXPECT_EQ(Scratch(graph, 0, 1), 4 * (200 + 50 + 50 + 200));
  EXPECT_EQ(Scratch(graph, 0, 4), 4 * (4 * 200 + 50 + 50 + 4 * 200));
}

// --- workspaces ---

Bytes Workspace(const std::string& spec, const std::string& op, int64_t rows) {
  const Graph graph = BuildModel(spec, {.batch = 64}).value();
  const Op& found = graph.op(graph.FindOp(op).value());
  return WorkspaceOf(graph, found, ExtentsForRows(found, rows));
}

// Scores of all heads: 4 heads of 64 x 64; at most 2^18 floats at a time.
TEST(WorkspaceTest, AttentionGoesThroughItsSamplesInParts) {
  EXPECT_EQ(Workspace("tiny-gpt", "block0.attn", 1).value, 4 * (4 * 64 * 64));
  EXPECT_EQ(Workspace("tiny-gpt", "block0.attn", 16).value, 4 * (16 * 4 * 64 * 64));
  EXPECT_EQ(Workspace("tiny-gpt", "block0.attn", 64).value, 4 << 18);
  EXPECT_EQ(Workspace("tiny-gpt", "block0.attn.dqkv", 1).value, 2 * 4 * (4 * 64 * 64));
  // One head is the least: 1024 x 1024.
  EXPECT_EQ(Workspace("gpt?layers=1", "block0.attn", 1).value, 4 * 1024 * 1024);
}

TEST(WorkspaceTest, CrossAttention) {
  const std::string spec = "transformer?layers=1&hidden=16&heads=2&seq=8&vocab=32";
  EXPECT_EQ(Workspace(spec, "decoder0.cross", 3).value, 4 * (3 * 2 * 8 * 8));
  EXPECT_EQ(Workspace(spec, "decoder0.cross.dq", 3).value, 2 * 4 * (3 * 2 * 8 * 8));
  EXPECT_EQ(Workspace(spec, "decoder0.cross.dkv", 3).value, 2 * 4 * (3 * 2 * 8 * 8));
}

TEST(WorkspaceTest, TheLossGoesThroughItsRowsInParts) {
  EXPECT_EQ(Workspace("tiny-gpt", "xent", 1).value, 4 * (64 * 256));
  EXPECT_EQ(Workspace("tiny-gpt", "xent", 64).value, 4 << 18);
  EXPECT_EQ(Workspace("tiny-gpt?vocab=1000000&seq=2", "xent", 1).value, 4 * 1'000'000);
  EXPECT_EQ(Workspace("tiny-gpt", "xent.dx", 64).value, 0);  // writes over the logits
}

TEST(WorkspaceTest, OthersNeedNone) {
  EXPECT_EQ(Workspace("tiny-gpt", "block0.fc1", 64).value, 0);
  EXPECT_EQ(Workspace("vgg19?image=32", "conv1_1", 64).value, 0);
}

// --- lowered ---

constexpr char kResnet[] =
    "resnet152?width=2&image=32&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1";

// Each microbatch has its own statistics, though they have no sample axis; on two devices each has
// those of its rows.
TEST(BatchStatisticsTest, OfEveryMicrobatch) {
  const Graph graph = BuildModel(kResnet, {.batch = 8}).value();
  const Plan plan = PlanOf(
      8, 2, {{{StageOf({{0, 2}}, {1, 3}, "F*2 B*2"), StageOf({{3, 5}}, {1}, "(F B)*2", true)}}});
  ASSERT_EQ(FaultsOf(plan, graph), "");
  const Program program = LowerPlan(plan, graph).value();
  int ports = 0;
  for (const Segment& segment : program.segments) {
    for (const Port& port : segment.ports) {
      if (program.tensor(port.tensor).name != "stem.bn.variance.y") continue;
      ++ports;
      EXPECT_TRUE(port.per_microbatch) << segment.name;
      EXPECT_EQ(port.slice, -1) << segment.name;
      const bool forward = segment.phase == SegmentPhase::kForward;
      EXPECT_EQ(port.use, forward ? PortUse::kWrite : PortUse::kConsume) << segment.name;
    }
  }
  EXPECT_EQ(ports, 4);  // forward and backward on either device
}

TEST(BatchStatisticsTest, AreNotSent) {
  const Graph graph = BuildModel(kResnet, {.batch = 8}).value();
  const Plan plan =
      PlanOf(8, 2, {{{StageOf({{0, 2}}, {1}, "F*2 B*2"), StageOf({{3, 5}}, {1}, "(F B)*2")}}});
  const Program program = LowerPlan(plan, graph).value();
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code != OpCode::kSend && in.code != OpCode::kRecv) continue;
      const BufferRef& sent = device.operands[static_cast<size_t>(in.first_operand)];
      EXPECT_EQ(program.tensor(sent.tensor).shape.size(), 4U) << program.tensor(sent.tensor).name;
    }
  }
}

}  // namespace
}  // namespace heddle
