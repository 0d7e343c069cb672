// Forward kernels against libtorch's own functions, or against loops where it has none. The
// autograd test differentiates these kernels; that they compute the right thing is shown here.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/zoo.h"
#include "run/torch/kernels.h"

namespace heddle {
namespace {

constexpr int64_t kBatch = 4;
constexpr char kResnet[] =
    "resnet152?width=2&image=37&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1";
constexpr char kInception[] = "inception-v3?width=4&image=79&classes=5";
constexpr char kMoe[] = "tiny-moe?layers=1&hidden=6&heads=2&seq=9&vocab=11&every=1&capacity=60";

Graph Build(const std::string& model) { return BuildModel(model, {.batch = kBatch}).value(); }

// A random tensor with the shape of one of the graph's.
at::Tensor RandomLike(const Graph& graph, const std::string& name) {
  return at::randn(graph.tensor(*graph.FindTensor(name)).shape, at::kDouble);
}

std::vector<at::Tensor> RunOp(const Graph& graph, const std::string& op,
                              const std::vector<at::Tensor>& inputs, KernelContext context = {}) {
  context.batch = kBatch;
  return RunKernel(graph, graph.op(*graph.FindOp(op)), inputs, context);
}

void ExpectEqual(const at::Tensor& got, const at::Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_LE((got - expected).abs().max().item<double>(), 1e-11);
}

TEST(ForwardTest, ConvolutionAndPooling) {
  const Graph resnet = Build(kResnet);
  const at::Tensor x = RandomLike(resnet, "x"), w = RandomLike(resnet, "stem.w");
  const at::Tensor y = RunOp(resnet, "stem", {x, w})[0];
  ExpectEqual(y, at::conv2d(x, w, {}, 2, 3));
  ExpectEqual(RunOp(resnet, "stem.pool", {y})[0], at::max_pool2d(y, 3, 2, 1));
  const at::Tensor last = RandomLike(resnet, "group4.block0.relu.y");
  ExpectEqual(RunOp(resnet, "head.mean", {last})[0],
              at::adaptive_avg_pool2d(last, {1, 1}).flatten(1));
  const Graph inception = Build(kInception);
  const at::Tensor z = RandomLike(inception, "c0.b7_1.relu.y"),
                   row = RandomLike(inception, "c0.b7_2.w");
  ExpectEqual(RunOp(inception, "c0.b7_2", {z, row})[0],
              at::conv2d(z, row, {}, {1, 1}, at::IntArrayRef{0, 3}));
  const at::Tensor a = RandomLike(inception, "pool2.y");
  ExpectEqual(RunOp(inception, "a0.pool", {a})[0], at::avg_pool2d(a, 3, 1, 1));
}

TEST(ForwardTest, BatchNormalisation) {
  const Graph graph = Build(kInception);
  const at::Tensor x = RandomLike(graph, "conv1.y") * 3 + 5;
  const at::Tensor scale = RandomLike(graph, "conv1.bn.scale"),
                   shift = RandomLike(graph, "conv1.bn.shift");
  const at::Tensor mean = RunOp(graph, "conv1.bn.mean", {x})[0];
  const at::Tensor variance = RunOp(graph, "conv1.bn.variance", {x, mean})[0];
  ExpectEqual(RunOp(graph, "conv1.bn", {x, mean, variance, scale, shift})[0],
              at::batch_norm(x, scale, shift, {}, {}, /*training=*/true, 0, 1e-3, false));
}

TEST(ForwardTest, LayerNormalisationKeepsTheModelsEpsilon) {
  for (const auto& [model, epsilon] : std::vector<std::pair<std::string, double>>{
           {"bert-base?layers=1&hidden=8&heads=2&seq=5&vocab=11", 1e-12},
           {"tiny-gpt?layers=1&hidden=8&heads=2&seq=5", 1e-5}}) {
    const Graph graph = Build(model);
    const at::Tensor x = at::randn({kBatch, 5, 8}, at::kDouble) * 1e-3;  // where it matters
    const at::Tensor scale = at::randn({8}, at::kDouble), shift = at::randn({8}, at::kDouble);
    ExpectEqual(RunOp(graph, "block0.ln1", {x, scale, shift})[0],
                at::layer_norm(x, {8}, scale, shift, epsilon));
  }
}

// [b, t, heads, d] and [b, s, heads, d].
at::Tensor Attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor scores = at::einsum("btad,bsad->bats", {q, k}) / std::sqrt(q.size(-1));
  return at::einsum("bats,bsad->btad", {at::softmax(scores, -1), v});
}

TEST(ForwardTest, AttentionThatSeesAllAndAnotherSequence) {
  const Graph bert = Build("bert-base?layers=1&hidden=8&heads=2&seq=5&vocab=11");
  const at::Tensor qkv = at::randn({kBatch, 5, 3, 2, 4}, at::kDouble);
  ExpectEqual(RunOp(bert, "block0.attn", {qkv})[0],
              Attended(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2)));
  const Graph transformer = Build("transformer?layers=1&hidden=8&wide=8&heads=2&seq=6&vocab=11");
  const at::Tensor q = at::randn({kBatch, 6, 2, 4}, at::kDouble);
  const at::Tensor kv = at::randn({kBatch, 6, 2, 2, 4}, at::kDouble);
  ExpectEqual(RunOp(transformer, "decoder0.cross", {q, kv})[0],
              Attended(q, kv.select(2, 0), kv.select(2, 1)));
}

TEST(ForwardTest, ClassTokenComesFirst) {
  const Graph graph = Build("vit?layers=1&hidden=6&heads=2&image=8&patch=4&classes=5");
  const at::Tensor features = at::randn({kBatch, 6, 2, 2}, at::kDouble);
  const at::Tensor token = at::randn({6}, at::kDouble);
  const at::Tensor y = RunOp(graph, "embed.class", {features, token})[0];
  ExpectEqual(y.select(1, 0), token.expand({kBatch, 6}));
  ExpectEqual(y.select(1, 3), features.select(2, 1).select(2, 0));  // row 1, column 0
  ExpectEqual(RunOp(graph, "head.first", {y})[0], y.select(1, 0));
}

// Token by token: the preferred expert, in order of positions, as long as there is room.
TEST(ForwardTest, ExpertsGetTheTokensThatPreferThem) {
  const Graph graph = Build(kMoe);
  const int64_t positions = 9, experts = 4;
  const int64_t capacity = graph.op(*graph.FindOp("block0.route")).attributes.capacity;
  ASSERT_EQ(capacity, 2);
  const at::Tensor logits = at::randn({kBatch, positions, experts}, at::kDouble);
  const at::Tensor p = RunOp(graph, "block0.gate.softmax", {logits})[0];
  ExpectEqual(p, at::softmax(logits, -1));
  const auto routed = RunOp(graph, "block0.route", {p});
  const at::Tensor x = at::randn({kBatch, positions, 6}, at::kDouble);
  const at::Tensor sent = RunOp(graph, "block0.dispatch", {x, routed[1]})[0];
  const at::Tensor back = RunOp(graph, "block0.combine", {sent, routed[1], routed[0]})[0];
  at::Tensor expected_sent = at::zeros_like(sent), expected_back = at::zeros_like(x);
  double balance = 0;
  int dropped = 0;
  for (int64_t b = 0; b < kBatch; ++b) {
    std::vector<int64_t> taken(experts, 0);
    std::vector<double> prefers(experts, 0);
    for (int64_t s = 0; s < positions; ++s) {
      const auto e = p[b][s].argmax().item<int64_t>();
      prefers[static_cast<size_t>(e)] += 1.0 / positions;
      const int64_t place = taken[static_cast<size_t>(e)]++;
      if (place >= capacity) {
        ++dropped;
        continue;
      }
      expected_sent[b][e][place].copy_(x[b][s]);
      expected_back[b][s].copy_(x[b][s] * p[b][s][e]);
    }
    for (int64_t e = 0; e < experts; ++e) {
      balance += prefers[static_cast<size_t>(e)] * p[b].mean(0)[e].item<double>();
    }
  }
  EXPECT_GT(dropped, 0);
  ExpectEqual(sent, expected_sent);
  ExpectEqual(back, expected_back);
  EXPECT_NEAR(RunOp(graph, "block0.balance", {p, routed[1]})[0].item<double>(),
              0.01 * experts * balance / kBatch, 1e-12);
}

// A fifth goes, the rest is scaled up; the same whichever part of the batch is asked for.
TEST(ForwardTest, DropoutBelongsToSampleAndStep) {
  const Graph graph = Build("tiny-mlp?dropout=20&hidden=4096");
  const at::Tensor ones = at::ones({kBatch, 4096}, at::kDouble);
  const auto drop = [&](const at::Tensor& x, int64_t first, int64_t step, bool training = true) {
    KernelContext context;
    context.first_sample = first;
    context.step = step;
    context.update = step;
    context.training = training;
    return RunOp(graph, "fc0.drop", {x}, context)[0];
  };
  const at::Tensor all = drop(ones, 0, 3);
  EXPECT_NEAR((all == 0).to(at::kDouble).mean().item<double>(), 0.2, 0.02);
  ExpectEqual(all.max(), at::full({}, 1.25, at::kDouble));
  ExpectEqual(drop(ones.narrow(0, 0, 2), 2, 3), all.narrow(0, 2, 2));
  EXPECT_FALSE(at::equal(drop(ones, 0, 4), all));
  EXPECT_TRUE(at::equal(drop(ones, 0, 3, /*training=*/false), ones));
}

}  // namespace
}  // namespace heddle
