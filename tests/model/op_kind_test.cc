// Shapes, work and traffic of ops, against numbers computed by hand.
#include "model/op_kind.h"

#include <gtest/gtest.h>

#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "op_text.h"

namespace heddle {
namespace {

// x [4,6] times w [6,8], a bias, cross-entropy over 8 classes.
Graph Linear(DType dtype = DType::kF32) {
  GraphBuilder g(4, dtype);
  const TensorId x = g.Input("x", dtype, {6});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("fc");
  const TensorId y = g.Einsum("fc", "bk,kn->bn", x, g.Parameter("w", {6, 8}));
  const TensorId z = g.BiasAdd("bias", "bn,n->bn", y, g.Parameter("c", {8}));
  g.CrossEntropy("xent", z, targets);
  AddTraining(g, {Optimizer::kAdam});
  return g.Finish().value();
}

TEST(OpKindTest, MatrixProduct) {
  const Graph graph = Linear();
  EXPECT_EQ(TypeOf(graph, "fc.y"), "f32[4,8]");
  EXPECT_EQ(FlopsOf(graph, "fc"), 2 * 4 * 6 * 8);
  EXPECT_EQ(TrafficOf(graph, "fc"), 4 * (4 * 6 + 6 * 8 + 4 * 8));
  EXPECT_TRUE(InfoOf(OpKind::kEinsum).matrix);
}

TEST(OpKindTest, GradientOfAMatrixProduct) {
  const Graph graph = Linear();
  EXPECT_EQ(graph.FindOp("fc.da"), std::nullopt);  // nobody asks for the gradient of the data
  EXPECT_EQ(FlopsOf(graph, "fc.db"), 2 * 4 * 6 * 8);
  EXPECT_EQ(TypeOf(graph, "g.w"), "f32[6,8]");
  EXPECT_EQ(FlopsOf(graph, "bias.dbias"), 4 * 8);
  EXPECT_EQ(TypeOf(graph, "g.c"), "f32[8]");
}

TEST(OpKindTest, CrossEntropy) {
  const Graph graph = Linear();
  EXPECT_EQ(TypeOf(graph, "loss"), "f32[]");
  EXPECT_EQ(TypeOf(graph, "xent.lse"), "f32[4]");
  EXPECT_EQ(FlopsOf(graph, "xent"), 4 * 4 * 8);
  EXPECT_EQ(TypeOf(graph, "d.bias.y"), "f32[4,8]");
}

TEST(OpKindTest, Updates) {
  const Graph graph = Linear();
  EXPECT_EQ(FlopsOf(graph, "w.update"), 12 * 48);
  // Reads w, g, m, v and writes w, m, v.
  EXPECT_EQ(TrafficOf(graph, "w.update"), 7 * 4 * 48);
}

TEST(OpKindTest, HalfPrecisionKeepsMasterWeights) {
  const Graph graph = Linear(DType::kBf16);
  EXPECT_EQ(TypeOf(graph, "w"), "bf16[6,8]");
  EXPECT_EQ(TypeOf(graph, "g.w"), "bf16[6,8]");
  EXPECT_EQ(TypeOf(graph, "w.m"), "f32[6,8]");
  EXPECT_EQ(TypeOf(graph, "w.master"), "f32[6,8]");
  EXPECT_EQ(TypeOf(graph, "loss"), "f32[]");
}

// Four tokens of a vocabulary of 100, width 6; two heads of three features.
Graph Attention() {
  GraphBuilder g(2, DType::kF32);
  const TensorId tokens = g.Input("tokens", DType::kI64, {4});
  const TensorId targets = g.Input("targets", DType::kI64, {4});
  g.BeginLayer("all");
  const TensorId x = g.Embedding("embed", tokens, g.Parameter("table", {100, 6}));
  const TensorId n = g.LayerNorm("ln", x, g.Parameter("scale", {6}), g.Parameter("shift", {6}));
  const TensorId qkv = g.Einsum("qkv", "bsh,hcad->bscad", n, g.Parameter("wq", {6, 3, 2, 3}));
  const TensorId mixed = g.Attention("attn", qkv, true);
  const TensorId out = g.Einsum("out", "bsad,adv->bsv", mixed, g.Parameter("wo", {2, 3, 10}));
  g.CrossEntropy("xent", g.Gelu("gelu", out), targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(OpKindTest, EmbeddingTouchesTheRowsItTakes) {
  const Graph graph = Attention();
  EXPECT_EQ(TypeOf(graph, "embed.y"), "f32[2,4,6]");
  EXPECT_EQ(FlopsOf(graph, "embed"), 0);
  // Eight tokens of 8 bytes, eight rows of the table, eight rows written: not all 100.
  EXPECT_EQ(TrafficOf(graph, "embed"), 8 * 8 + 8 * 6 * 4 + 8 * 6 * 4);
}

TEST(OpKindTest, AttentionIsSquareInTheSequence) {
  const Graph graph = Attention();
  EXPECT_EQ(TypeOf(graph, "qkv.y"), "f32[2,4,3,2,3]");
  EXPECT_EQ(TypeOf(graph, "attn.y"), "f32[2,4,2,3]");
  EXPECT_EQ(TypeOf(graph, "attn.lse"), "f32[2,2,4]");
  EXPECT_EQ(FlopsOf(graph, "attn"), 4 * (2 * 4 * 4 * 2 * 3));
  EXPECT_EQ(FlopsOf(graph, "attn.dqkv"), 10 * (2 * 4 * 4 * 2 * 3));
  EXPECT_TRUE(OpOf(graph, "attn").attributes.causal);
}

TEST(OpKindTest, LayerNormKeepsItsStatistics) {
  const Graph graph = Attention();
  EXPECT_EQ(TypeOf(graph, "ln.mean"), "f32[2,4]");
  EXPECT_EQ(TypeOf(graph, "ln.rstd"), "f32[2,4]");
  EXPECT_EQ(FlopsOf(graph, "ln"), 8 * (2 * 4 * 6));
}

TEST(OpKindTest, GradientsOfABlock) {
  EXPECT_EQ(BackwardOf(Attention()),
            "xent.dx cross_entropy_input bsV,bs,bs->bsV\n"
            "gelu.dx gelu_backward bst,bst->bst\n"
            "out.da einsum bsv,adv->bsad\n"
            "out.db einsum bsad,bsv->adv\n"
            "attn.dqkv attention_input bSaD,bSCaD,bSaD,baS->bSCaD|bSSaD\n"
            "qkv.da einsum bscad,hcad->bsh\n"
            "qkv.db einsum bsh,bscad->hcad\n"
            "ln.dx layer_norm_input bsH,bsH,H,bs,bs->bsH\n"
            "ln.dscale layer_norm_scale bsh,bsh,bs,bs->h\n"
            "ln.dshift reduce_sum bsh->h\n"
            "embed.dtable embedding_weight bsh,bs->vh|bsh\n");
}

TEST(OpKindTest, WorkFollowsTheRows) {
  const Graph graph = Attention();
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::kUpdate) continue;
    const double whole = heddle::FlopsOf(op, ExtentsForRows(op, 2)).value;
    EXPECT_EQ(heddle::FlopsOf(op, ExtentsForRows(op, 1)).value * 2, whole) << op.name;
    EXPECT_EQ(heddle::FlopsOf(op, ExtentsForRows(op, 0)).value, 0) << op.name;
  }
}

// Upper case letters cannot be sharded; 'b' is the sample axis.
TEST(OpKindTest, LettersSayHowAnOpMayBeSharded) {
  const Graph graph = Attention();
  EXPECT_EQ(OpOf(graph, "ln").inputs[0].letters, "bsH");
  EXPECT_EQ(OpOf(graph, "qkv").outputs[0].letters, "bscad");
  EXPECT_EQ(OpOf(graph, "attn").inputs[0].letters, "bSCaD");
  EXPECT_EQ(InfoOf(OpKind::kEinsum).linearity, Linearity::kMultilinear);
  EXPECT_EQ(InfoOf(OpKind::kAdd).linearity, Linearity::kAdditive);
  EXPECT_EQ(InfoOf(OpKind::kGelu).linearity, Linearity::kNone);
}

}  // namespace
}  // namespace heddle
