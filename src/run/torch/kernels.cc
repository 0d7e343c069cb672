#include "run/torch/kernels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "run/torch/kernel_call.h"

namespace heddle {
namespace kernels {
namespace {

Tensors Opaque(const Call&) {
  HEDDLE_CHECK(false && "an opaque layer has no arithmetic");
  return {};
}

// An empty shard: outputs that have its letter are empty, the others are sums over nothing.
Tensors Nothing(const Call& c) {
  Tensors outputs;
  if (c.op.phase == Phase::kUpdate && c.op.kind != OpKind::kSquareSum) return outputs;
  for (size_t o = 0; o < c.op.outputs.size(); ++o) {
    const bool whole_numbers = c.graph.tensor(c.op.outputs[o].tensor).dtype == DType::kI64;
    outputs.push_back(at::zeros(c.OutputShape(o), whole_numbers ? at::kLong : c.context.dtype));
  }
  return outputs;
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
    Tanh,
    TanhBackward,
    Dropout,
    Conv2d,
    Conv2dInput,
    Conv2dWeight,
    MaxPool,
    MaxPoolInput,
    AveragePool,
    AveragePoolInput,
    Mean,
    MeanInput,
    Concat,
    Slice,
    BatchMean,
    BatchVariance,
    BatchNorm,
    BatchNormSums,
    BatchNormInput,
    ClassToken,
    ClassTokenInput,
    ClassTokenWeight,
    SelectFirst,
    SelectFirstInput,
    CrossAttention,
    CrossAttentionQuery,
    CrossAttentionContext,
    Softmax,
    SoftmaxBackward,
    Route,
    RouteInput,
    Dispatch,
    DispatchInput,
    Combine,
    CombineInput,
    CombineWeight,
    BalanceLoss,
    BalanceLossInput,
    SquareSum,
    Sgd,
    Momentum,
    Adam,
    Opaque,
};
static_assert(std::size(kKernels) == static_cast<size_t>(kOpKindCount));

}  // namespace
}  // namespace kernels

std::vector<at::Tensor> RunKernel(const Graph& graph, const Op& op, std::vector<at::Tensor> inputs,
                                  const KernelContext& context, const at::Tensor& sum) {
  const bool nothing = std::any_of(context.parts.begin(), context.parts.end(),
                                   [](const Range& part) { return part.size() == 0; });
  if (nothing) return kernels::Nothing({graph, op, inputs, context, sum});
  return kernels::kKernels[static_cast<size_t>(op.kind)]({graph, op, inputs, context, sum});
}

}  // namespace heddle
