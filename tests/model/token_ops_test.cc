// Ops on tokens: shapes, work, traffic, sharding and gradients, against numbers computed by hand.
#include <gtest/gtest.h>

#include "model/autodiff.h"
#include "model/zoo_blocks.h"
#include "op_text.h"

namespace heddle {
namespace {

constexpr char kLoss[] = "xent.dx cross_entropy_input bV,b,b->bV\n";

// Features [2, 4, 3, 2] of an image as tokens behind a class token; a loss on the first.
Graph ClassToken() {
  GraphBuilder g(2, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {4, 3, 2});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.BiasAdd("lead", "bcyx,c->bcyx", x, g.Parameter("lead.c", {4}));
  x = g.ClassToken("class", x, g.Parameter("token", {4}));
  x = g.SelectFirst("first", x);
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(TokenOpsTest, ClassToken) {
  const Graph graph = ClassToken();
  EXPECT_EQ(TypeOf(graph, "class.y"), "f32[2,7,4]");
  EXPECT_EQ(FlopsOf(graph, "class"), 0);
  EXPECT_EQ(TrafficOf(graph, "class"), 4 * (2 * 4 * 6 + 4 + 2 * 7 * 4));
  EXPECT_EQ(ShardingOf(graph, "class"), "b:shared h:shared Y:whole X:whole S:whole");
  EXPECT_EQ(BackwardOf(graph), std::string(kLoss) +
                                   "first.dx select_first_input bh->bSh\n"
                                   "class.dx class_token_input bSh->bhYX|bSh\n"
                                   "class.dtoken class_token_weight bSh->h|bh\n"
                                   "lead.dbias reduce_sum bcyx->c\n");
  EXPECT_EQ(TypeOf(graph, "g.token"), "f32[4]");
  EXPECT_EQ(TypeOf(graph, "d.lead.y"), "f32[2,4,3,2]");
  // Only the first position of every sample.
  EXPECT_EQ(TrafficOf(graph, "class.dtoken"), 4 * (2 * 4 + 4));
  EXPECT_EQ(FlopsOf(graph, "class.dtoken"), 2 * 4);
  EXPECT_EQ(ShardingOf(graph, "class.dtoken"), "b:summed S:whole h:shared");
}

// Forward one position is read; backward all are written, most of them with zeros.
TEST(TokenOpsTest, SelectFirst) {
  const Graph graph = ClassToken();
  EXPECT_EQ(TypeOf(graph, "first.y"), "f32[2,4]");
  EXPECT_EQ(TrafficOf(graph, "first"), 4 * (2 * 4 + 2 * 4));
  EXPECT_EQ(TypeOf(graph, "d.class.y"), "f32[2,7,4]");
  EXPECT_EQ(TrafficOf(graph, "first.dx"), 4 * (2 * 4 + 2 * 7 * 4));
  EXPECT_EQ(ShardingOf(graph, "first"), "b:shared S:whole h:shared");
}

// Three queries look at five tokens of context; two heads of three features.
Graph CrossAttention() {
  GraphBuilder g(2, DType::kF32);
  const TensorId words = g.Input("words", DType::kI64, {3});
  const TensorId context = g.Input("context", DType::kI64, {5});
  const TensorId targets = g.Input("targets", DType::kI64, {3});
  g.BeginLayer("all");
  const TensorId table = g.Parameter("table", {20, 6});
  const TensorId a = g.Embedding("query", words, table);
  const TensorId c = g.Embedding("source", context, table);
  const TensorId q = g.Einsum("q", "bth,had->btad", a, g.Parameter("wq", {6, 2, 3}));
  const TensorId kv = g.Einsum("kv", "bsh,hcad->bscad", c, g.Parameter("wkv", {6, 2, 2, 3}));
  const TensorId mixed = g.CrossAttention("cross", q, kv);
  const TensorId out = g.Einsum("out", "btad,adv->btv", mixed, g.Parameter("wo", {2, 3, 20}));
  g.CrossEntropy("xent", out, targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(TokenOpsTest, CrossAttention) {
  const Graph graph = CrossAttention();
  EXPECT_EQ(TypeOf(graph, "cross.y"), "f32[2,3,2,3]");
  EXPECT_EQ(TypeOf(graph, "cross.lse"), "f32[2,2,3]");
  constexpr int64_t kPoints = 2 * 3 * 5 * 2 * 3;  // samples, queries, keys, heads, features
  EXPECT_EQ(FlopsOf(graph, "cross"), 4 * kPoints);
  EXPECT_EQ(FlopsOf(graph, "cross.dq"), 6 * kPoints);
  EXPECT_EQ(FlopsOf(graph, "cross.dkv"), 8 * kPoints);
  EXPECT_EQ(TypeOf(graph, "d.q.y"), "f32[2,3,2,3]");
  EXPECT_EQ(TypeOf(graph, "d.kv.y"), "f32[2,5,2,2,3]");
  EXPECT_FALSE(OpOf(graph, "cross").attributes.causal);
  EXPECT_EQ(ShardingOf(graph, "cross"), "b:shared T:whole a:shared D:whole S:whole C:whole");
  EXPECT_TRUE(InfoOf(OpKind::kCrossAttention).matrix);
}

TEST(TokenOpsTest, GradientsOfCrossAttention) {
  EXPECT_EQ(BackwardOf(CrossAttention()),
            "xent.dx cross_entropy_input bsV,bs,bs->bsV\n"
            "out.da einsum btv,adv->btad\n"
            "out.db einsum btad,btv->adv\n"
            "cross.dq cross_attention_query bTaD,bTaD,bSCaD,bTaD,baT->bTaD|bTSaD\n"
            "cross.dkv cross_attention_context bTaD,bTaD,bSCaD,bTaD,baT->bSCaD|bTSaD\n"
            "kv.da einsum bscad,hcad->bsh\n"
            "kv.db einsum bsh,bscad->hcad\n"
            "q.da einsum btad,had->bth\n"
            "q.db einsum bth,btad->had\n"
            "source.dtable embedding_weight bsh,bs->vh|bsh\n"
            "query.dtable embedding_weight bsh,bs->vh|bsh\n");
}

// Six tokens of four features; three experts with two slots each per sequence.
Graph Experts() {
  GraphBuilder g(2, DType::kF32);
  const TensorId words = g.Input("words", DType::kI64, {6});
  const TensorId targets = g.Input("targets", DType::kI64, {6});
  g.BeginLayer("all");
  const TensorId x = g.Embedding("embed", words, g.Parameter("table", {10, 4}));
  const TensorId p =
      g.Softmax("gate", g.Einsum("logits", "bsh,he->bse", x, g.Parameter("wg", {4, 3})));
  const GraphBuilder::Routing routing = g.Route("route", p, 2);
  g.BalanceLoss("balance", p, routing, 0.5);
  const TensorId sent = g.Dispatch("dispatch", x, routing, 3);
  const TensorId y = g.Einsum("expert", "bech,ehf->becf", sent, g.Parameter("we", {3, 4, 4}));
  const TensorId back = g.Combine("combine", y, routing);
  g.CrossEntropy("xent", back, targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(TokenOpsTest, ShapesOfExperts) {
  const Graph graph = Experts();
  EXPECT_EQ(TypeOf(graph, "gate.y"), "f32[2,6,3]");
  EXPECT_EQ(TypeOf(graph, "route.chosen"), "f32[2,6]");
  EXPECT_EQ(TypeOf(graph, "route.slot"), "i64[2,6]");
  EXPECT_EQ(TypeOf(graph, "dispatch.y"), "f32[2,3,2,4]");
  EXPECT_EQ(TypeOf(graph, "combine.y"), "f32[2,6,4]");
  EXPECT_EQ(TypeOf(graph, "balance.loss"), "f32[]");
  EXPECT_EQ(graph.tensor(graph.FindTensor("balance.loss").value()).role, Role::kLoss);
  for (const char* op : {"route", "dispatch", "combine", "balance", "route.dx", "dispatch.dx",
                         "combine.dy", "combine.dchosen", "balance.dx"}) {
    EXPECT_EQ(OpOf(graph, op).attributes.capacity, 2) << op;
  }
  EXPECT_EQ(OpOf(graph, "balance").attributes.weight, 0.5);
  EXPECT_EQ(OpOf(graph, "balance.dx").attributes.weight, 0.5);
}

TEST(TokenOpsTest, WorkOfExperts) {
  const Graph graph = Experts();
  EXPECT_EQ(FlopsOf(graph, "gate"), 4 * (2 * 6 * 3));
  EXPECT_EQ(FlopsOf(graph, "route"), 2 * (2 * 6 * 3));
  EXPECT_EQ(FlopsOf(graph, "dispatch"), 0);
  EXPECT_EQ(FlopsOf(graph, "expert"), 2 * (2 * 3 * 2 * 4 * 4));  // every slot, used or not
  EXPECT_EQ(FlopsOf(graph, "combine"), 2 * 6 * 4);
  // Slots are i64. 48 elements of x, 48 places to put them.
  EXPECT_EQ(TrafficOf(graph, "dispatch"), 4 * 48 + 8 * 12 + 4 * 48);
  EXPECT_EQ(TrafficOf(graph, "combine"), 4 * 48 + 8 * 12 + 4 * 12 + 4 * 48);
  EXPECT_EQ(TrafficOf(graph, "combine.dchosen"), 4 * 48 + 4 * 48 + 8 * 12 + 4 * 12);
}

// Each device may keep some experts: it sends to its own, and returns a partial sum of the tokens.
TEST(TokenOpsTest, ExpertsCanBeDivided) {
  const Graph graph = Experts();
  EXPECT_EQ(ShardingOf(graph, "dispatch"), "b:shared S:whole h:shared e:shared C:whole");
  EXPECT_EQ(ShardingOf(graph, "combine"), "b:shared e:summed C:whole h:shared S:whole");
  EXPECT_EQ(ShardingOf(graph, "combine.dy"), "b:shared S:whole h:shared e:shared C:whole");
  EXPECT_EQ(ShardingOf(graph, "combine.dchosen"), "b:shared S:whole h:summed e:summed C:whole");
  EXPECT_EQ(ShardingOf(graph, "dispatch.dx"), "b:shared e:summed C:whole h:shared S:whole");
  // The choice needs all of them at once.
  EXPECT_EQ(ShardingOf(graph, "gate"), "b:shared s:shared E:whole");
  EXPECT_EQ(ShardingOf(graph, "route"), "b:shared S:whole E:whole");
  EXPECT_EQ(ShardingOf(graph, "balance"), "b:summed S:whole E:whole");
}

TEST(TokenOpsTest, GradientsOfExperts) {
  const Graph graph = Experts();
  EXPECT_EQ(BackwardOf(graph),
            "xent.dx cross_entropy_input bsV,bs,bs->bsV\n"
            "combine.dy combine_input bSh,bS,bS->beCh|beCh\n"
            "combine.dchosen combine_weight bSh,beCh,bS->bS|bSh\n"
            "expert.da einsum becf,ehf->bech\n"
            "expert.db einsum bech,becf->ehf\n"
            "dispatch.dx dispatch_input beCh,bS->bSh|bSh\n"
            "balance.dx balance_loss_input bS->bSE\n"
            "route.dx route_input bS,bS->bSE\n"
            "route.dx.sum0 add bst,bst->bst\n"
            "gate.dx softmax_backward bsE,bsE->bsE\n"
            "logits.da einsum bse,he->bsh\n"
            "logits.da.sum1 add bst,bst->bst\n"
            "logits.db einsum bsh,bse->he\n"
            "embed.dtable embedding_weight bsh,bs->vh|bsh\n");
  EXPECT_EQ(OpOf(graph, "gate.dx").inputs[1].tensor, graph.FindTensor("gate.y"));
  EXPECT_EQ(graph.FindTensor("d.route.slot"), std::nullopt);  // a choice has no gradient
}

// One op, one input: y = f(x), with the gradient computed from what the text says.
Graph Pointwise(OpKind kind) {
  GraphBuilder g(2, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {5});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.BiasAdd("lead", "bk,k->bk", x, g.Parameter("c", {5}));
  if (kind == OpKind::kTanh) x = g.Tanh("f", x);
  if (kind == OpKind::kRelu) x = g.Relu("f", x);
  if (kind == OpKind::kGelu) x = g.Gelu("f", x);
  if (kind == OpKind::kDropout) x = g.Dropout("f", x, 0.25);
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(TokenOpsTest, GradientsElementByElement) {
  const auto backward = [](const std::string& line) {
    return kLoss + line + "lead.dbias reduce_sum bk->k\n";
  };
  const Graph tanh = Pointwise(OpKind::kTanh);
  EXPECT_EQ(BackwardOf(tanh), backward("f.dx tanh_backward bs,bs->bs\n"));
  EXPECT_EQ(OpOf(tanh, "f.dx").inputs[1].tensor, tanh.FindTensor("f.y"));
  const Graph relu = Pointwise(OpKind::kRelu);
  EXPECT_EQ(BackwardOf(relu), backward("f.dx relu_backward bs,bs->bs\n"));
  EXPECT_EQ(OpOf(relu, "f.dx").inputs[1].tensor, relu.FindTensor("f.y"));
  const Graph gelu = Pointwise(OpKind::kGelu);
  EXPECT_EQ(BackwardOf(gelu), backward("f.dx gelu_backward bs,bs->bs\n"));
  EXPECT_EQ(OpOf(gelu, "f.dx").inputs[1].tensor, gelu.FindTensor("lead.y"));
}

// Backward drops the same elements, and keeps nothing for it: the mask is known by its name.
TEST(TokenOpsTest, Dropout) {
  const Graph graph = Pointwise(OpKind::kDropout);
  EXPECT_EQ(BackwardOf(graph),
            std::string(kLoss) + "f.dx dropout bs->bs\nlead.dbias reduce_sum bk->k\n");
  for (const char* op : {"f", "f.dx"}) {
    EXPECT_EQ(OpOf(graph, op).attributes.rate, 0.25) << op;
    EXPECT_EQ(OpOf(graph, op).attributes.mask, "f") << op;
    EXPECT_EQ(TrafficOf(graph, op), 2 * (4 * 2 * 5)) << op;
  }
}

}  // namespace
}  // namespace heddle
