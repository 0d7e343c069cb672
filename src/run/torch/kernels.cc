#include "run/torch/kernels.h"

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
  return kernels::kKernels[static_cast<size_t>(op.kind)]({graph, op, inputs, context, sum});
}

}  // namespace heddle
