// What a kernel gets, and the kernels by file. The table (kernels.cc) puts them in OpKind's order.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "model/graph.h"
#include "run/torch/kernels.h"

namespace heddle::kernels {

using Tensors = std::vector<at::Tensor>;

struct Call {
  const Graph& graph;
  const Op& op;
  Tensors& in;
  const KernelContext& context;
  const at::Tensor& sum;  // to add the first output to; may be undefined

  // May the kernel compute into this input's memory?
  bool Owns(size_t i) const {
    return in[i].use_count() == 1 && in[i].storage().use_count() == 1 && in[i].is_contiguous();
  }
  // The part of a letter that is here, and its extent over all shards. Samples count from the
  // first of the step's batch.
  Range Part(char letter) const {
    const size_t at = op.IndexOf(letter);
    const int64_t first = letter == 'b' ? context.first_sample : 0;
    if (context.parts.empty()) return {first, first + (letter == 'b' ? Rows() : op.extents[at])};
    return {first + context.parts[at].begin, first + context.parts[at].end};
  }
  int64_t Whole(char letter) const {
    if (letter != 'b') return op.extents[op.IndexOf(letter)];
    return context.parts.empty() ? Rows() : context.rows;
  }
  bool Cut(char letter) const { return Part(letter).size() != Whole(letter); }
  std::vector<int64_t> OutputShape(size_t o) const {
    std::vector<int64_t> shape;
    for (const char letter : op.outputs[o].letters) shape.push_back(Part(letter).size());
    return shape;
  }
  // Samples in the input that has any; those of an op without samples do not matter.
  int64_t Rows() const {
    for (size_t i = 0; i < in.size(); ++i) {
      const size_t axis = op.inputs[i].letters.find('b');
      if (axis != std::string::npos) return in[i].size(static_cast<int64_t>(axis));
    }
    return 0;
  }
};

// Rows of a matrix at a time, so that temporaries stay in the cache and off the peak.
inline int64_t RowsAtOnce(int64_t elements_per_row) {
  return std::max<int64_t>(1, kWorkspaceElements / std::max<int64_t>(1, elements_per_row));
}

// dense_kernels.cc
Tensors Einsum(const Call& c);
Tensors BiasAdd(const Call& c);
Tensors Add(const Call& c);
Tensors ReduceSum(const Call& c);
Tensors Gelu(const Call& c);
Tensors GeluBackward(const Call& c);
Tensors Relu(const Call& c);
Tensors ReluBackward(const Call& c);
Tensors LayerNorm(const Call& c);
Tensors LayerNormInput(const Call& c);
Tensors LayerNormScale(const Call& c);
Tensors CrossEntropy(const Call& c);
Tensors CrossEntropyInput(const Call& c);
Tensors Tanh(const Call& c);
Tensors TanhBackward(const Call& c);
Tensors Dropout(const Call& c);

// image_kernels.cc
Tensors Conv2d(const Call& c);
Tensors Conv2dInput(const Call& c);
Tensors Conv2dWeight(const Call& c);
Tensors MaxPool(const Call& c);
Tensors MaxPoolInput(const Call& c);
Tensors AveragePool(const Call& c);
Tensors AveragePoolInput(const Call& c);
Tensors Mean(const Call& c);
Tensors MeanInput(const Call& c);
Tensors Concat(const Call& c);
Tensors Slice(const Call& c);
Tensors BatchMean(const Call& c);
Tensors BatchVariance(const Call& c);
Tensors BatchNorm(const Call& c);
Tensors BatchNormSums(const Call& c);
Tensors BatchNormInput(const Call& c);

// attention_kernels.cc
Tensors Attention(const Call& c);
Tensors AttentionInput(const Call& c);
Tensors CrossAttention(const Call& c);
Tensors CrossAttentionQuery(const Call& c);
Tensors CrossAttentionContext(const Call& c);

// token_kernels.cc
Tensors Embedding(const Call& c);
Tensors EmbeddingWeight(const Call& c);
Tensors ClassToken(const Call& c);
Tensors ClassTokenInput(const Call& c);
Tensors ClassTokenWeight(const Call& c);
Tensors SelectFirst(const Call& c);
Tensors SelectFirstInput(const Call& c);
Tensors Softmax(const Call& c);
Tensors SoftmaxBackward(const Call& c);
Tensors Route(const Call& c);
Tensors RouteInput(const Call& c);
Tensors Dispatch(const Call& c);
Tensors DispatchInput(const Call& c);
Tensors Combine(const Call& c);
Tensors CombineInput(const Call& c);
Tensors CombineWeight(const Call& c);
Tensors BalanceLoss(const Call& c);
Tensors BalanceLossInput(const Call& c);

// update_kernels.cc
Tensors SquareSum(const Call& c);
Tensors Sgd(const Call& c);
Tensors Momentum(const Call& c);
Tensors Adam(const Call& c);

}  // namespace heddle::kernels
