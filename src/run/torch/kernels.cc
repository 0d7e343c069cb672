#include "run/torch/kernels.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Call {
  const Graph& graph;
  const Op& op;
  const Tensors& in;
  const KernelContext& context;
};

Tensors Einsum(const Call& c) {
  const std::string equation =
      c.op.inputs[0].letters + "," + c.op.inputs[1].letters + "->" + c.op.outputs[0].letters;
  return {at::einsum(equation, {c.in[0], c.in[1]}).contiguous()};
}

// The second operand with length-1 axes where the first has letters it lacks.
at::Tensor Broadcast(const std::string& wide, const std::string& narrow, const at::Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const char letter : wide) {
    const size_t at = narrow.find(letter);
    shape.push_back(at == std::string::npos ? 1 : tensor.size(static_cast<int64_t>(at)));
  }
  return tensor.view(shape);
}

Tensors BiasAdd(const Call& c) {
  return {c.in[0] + Broadcast(c.op.inputs[0].letters, c.op.inputs[1].letters, c.in[1])};
}

Tensors Add(const Call& c) { return {c.in[0] + c.in[1]}; }

Tensors ReduceSum(const Call& c) {
  std::vector<int64_t> axes;
  const std::string& letters = c.op.inputs[0].letters;
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const bool kept = c.op.outputs[0].letters.find(letters[axis]) != std::string::npos;
    if (!kept) axes.push_back(static_cast<int64_t>(axis));
  }
  return {c.in[0].sum(axes)};
}

Tensors Gelu(const Call& c) { return {at::gelu(c.in[0])}; }
Tensors GeluBackward(const Call& c) { return {at::gelu_backward(c.in[0], c.in[1])}; }
Tensors Relu(const Call& c) { return {at::relu(c.in[0])}; }
Tensors ReluBackward(const Call& c) { return {at::threshold_backward(c.in[0], c.in[1], 0)}; }

constexpr double kLayerNormEpsilon = 1e-5;

Tensors LayerNorm(const Call& c) {
  auto [y, mean, rstd] =
      at::native_layer_norm(c.in[0], {c.in[0].size(-1)}, c.in[1], c.in[2], kLayerNormEpsilon);
  return {y, mean.squeeze(-1), rstd.squeeze(-1)};
}

Tensors LayerNormInput(const Call& c) {
  const at::Tensor& x = c.in[1];
  return {std::get<0>(at::native_layer_norm_backward(c.in[0], x, {x.size(-1)},
                                                     c.in[3].unsqueeze(-1), c.in[4].unsqueeze(-1),
                                                     c.in[2], c.in[2], {true, false, false}))};
}

Tensors LayerNormScale(const Call& c) {
  const at::Tensor& x = c.in[1];
  const at::Tensor normal = (x - c.in[2].unsqueeze(-1)) * c.in[3].unsqueeze(-1);
  return {(c.in[0] * normal).flatten(0, -2).sum(0)};
}

// q, k or v of the packed [b, s, 3, heads, features], as [b, heads, s, features].
at::Tensor Unpack(const at::Tensor& qkv, int64_t which) {
  return qkv.select(2, which).transpose(1, 2);
}

at::Tensor Scores(const at::Tensor& qkv, bool causal) {
  const at::Tensor q = Unpack(qkv, 0);
  const at::Tensor k = Unpack(qkv, 1);
  at::Tensor scores =
      at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (causal) {
    const int64_t positions = q.size(2);
    const at::Tensor later =
        at::ones({positions, positions}, qkv.options().dtype(at::kBool)).triu(1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

Tensors Attention(const Call& c) {
  const at::Tensor scores = Scores(c.in[0], c.op.attributes.causal);
  const at::Tensor lse = at::logsumexp(scores, {-1});
  const at::Tensor p = (scores - lse.unsqueeze(-1)).exp();
  return {at::matmul(p, Unpack(c.in[0], 2)).transpose(1, 2).contiguous(), lse};
}

// With p = softmax(q k' / √d), o = p v:  dv = p' do,  dp = do v',  ds = p (dp - Σ do o).
Tensors AttentionInput(const Call& c) {
  const at::Tensor& qkv = c.in[1];
  const at::Tensor d_out = c.in[0].transpose(1, 2);
  const at::Tensor out = c.in[2].transpose(1, 2);
  const at::Tensor q = Unpack(qkv, 0), k = Unpack(qkv, 1), v = Unpack(qkv, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor p = (Scores(qkv, c.op.attributes.causal) - c.in[3].unsqueeze(-1)).exp();
  const at::Tensor d_v = at::matmul(p.transpose(-1, -2), d_out);
  const at::Tensor d_p = at::matmul(d_out, v.transpose(-1, -2));
  const at::Tensor d_s = p * (d_p - (d_out * out).sum(-1, true)) * scale;
  const at::Tensor d_q = at::matmul(d_s, k);
  const at::Tensor d_k = at::matmul(d_s.transpose(-1, -2), q);
  return {at::stack({d_q.transpose(1, 2), d_k.transpose(1, 2), d_v.transpose(1, 2)}, 2)};
}

Tensors Embedding(const Call& c) { return {at::embedding(c.in[1], c.in[0])}; }

Tensors EmbeddingWeight(const Call& c) {
  const at::Tensor& d_y = c.in[0];
  const int64_t rows = c.graph.tensor(c.op.outputs[0].tensor).shape[0];
  at::Tensor table = at::zeros({rows, d_y.size(-1)}, d_y.options());
  return {table.index_add_(0, c.in[1].flatten(), d_y.flatten(0, -2))};
}

// Each of the batch's samples times positions counts equally, whatever part is here.
double LossScale(const Call& c) {
  double count = static_cast<double>(c.context.batch);
  const at::Tensor& targets = c.in[1];
  for (int64_t axis = 1; axis < targets.dim(); ++axis) {
    count *= static_cast<double>(targets.size(axis));
  }
  return 1 / count;
}

Tensors CrossEntropy(const Call& c) {
  const at::Tensor lse = at::logsumexp(c.in[0], {-1});
  const at::Tensor chosen = c.in[0].gather(-1, c.in[1].unsqueeze(-1)).squeeze(-1);
  return {(lse - chosen).sum() * LossScale(c), lse};
}

Tensors CrossEntropyInput(const Call& c) {
  const double scale = LossScale(c);
  at::Tensor d = (c.in[0] - c.in[2].unsqueeze(-1)).exp() * scale;
  const at::Tensor targets = c.in[1].unsqueeze(-1);
  return {d.scatter_add_(-1, targets, at::full_like(targets, -scale, d.options()))};
}

Tensors Sgd(const Call& c) {
  at::Tensor weight = c.in[0];
  weight.add_(c.in[1], -c.context.learning_rate);
  return {};
}

// Kingma, Ba 2015, with the usual constants.
Tensors Adam(const Call& c) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  at::Tensor weight = c.in[0], m = c.in[2], v = c.in[3];
  const at::Tensor& g = c.in[1];
  const auto t = static_cast<double>(c.context.step + 1);
  m.mul_(kBeta1).add_(g, 1 - kBeta1);
  v.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const double bias1 = 1 - std::pow(kBeta1, t);
  const double bias2 = std::sqrt(1 - std::pow(kBeta2, t));
  const at::Tensor denominator = (v.sqrt() / bias2).add_(kEpsilon);
  weight.addcdiv_(m, denominator, -c.context.learning_rate / bias1);
  return {};
}

Tensors Opaque(const Call&) {
  HEDDLE_CHECK(false && "an opaque layer has no arithmetic");
  return {};
}

using Kernel = Tensors (*)(const Call&);

// In the order of OpKind.
constexpr Kernel kKernels[] = {
    Einsum,
    BiasAdd,
    Add,
    ReduceSum,
    Gelu,
    GeluBackward,
    Relu,
    ReluBackward,
    LayerNorm,
    LayerNormInput,
    LayerNormScale,
    Attention,
    AttentionInput,
    Embedding,
    EmbeddingWeight,
    CrossEntropy,
    CrossEntropyInput,
    Sgd,
    Adam,
    Opaque,
};
static_assert(std::size(kKernels) == static_cast<size_t>(kOpKindCount));

}  // namespace

std::vector<at::Tensor> RunKernel(const Graph& graph, const Op& op,
                                  const std::vector<at::Tensor>& inputs,
                                  const KernelContext& context) {
  return kKernels[static_cast<size_t>(op.kind)]({graph, op, inputs, context});
}

}  // namespace heddle
