#include "model/layer_chain.h"

#include <algorithm>

namespace heddle {
namespace {

// First and last layer that touch a tensor, by whether they write or read it.
struct Span {
  int written = -1;
  int first_read = INT32_MAX;
  int last_read = -1;
};

Bytes PerSample(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  return tensor.per_sample ? tensor.bytes() / graph.batch() : tensor.bytes();
}

}  // namespace

LayerChain ChainOf(const Graph& graph) {
  LayerChain chain;
  chain.layers.resize(graph.layers().size());
  std::vector<Span> forward(graph.tensors().size());
  std::vector<Span> backward(graph.tensors().size());
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    const OpId id{static_cast<int32_t>(i)};
    if (op.phase == Phase::kUpdate) continue;
    ChainLayer& layer = chain.layers[static_cast<size_t>(op.layer.value)];
    const bool is_forward = op.phase == Phase::kForward;
    (is_forward ? layer.forward : layer.backward).push_back(id);
    if (op.phase == Phase::kBackwardInput) layer.backward_input.push_back(id);
    if (op.phase == Phase::kBackwardWeight) layer.backward_weight.push_back(id);
    for (const Operand& input : op.inputs) {
      const Role role = graph.tensor(input.tensor).role;
      if (role != Role::kActivation && role != Role::kGradient) continue;
      // A later layer may read an earlier layer's activation only in its backward pass: it must
      // still travel forward.
      Span& span =
          (role == Role::kActivation ? forward : backward)[static_cast<size_t>(input.tensor.value)];
      span.first_read = std::min(span.first_read, op.layer.value);
      span.last_read = std::max(span.last_read, op.layer.value);
    }
    for (const Operand& output : op.outputs) {
      (is_forward ? forward : backward)[static_cast<size_t>(output.tensor.value)].written =
          op.layer.value;
    }
  }
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    for (const LayerId layer : graph.parameters()[i].layers) {
      chain.layers[static_cast<size_t>(layer.value)].parameters.push_back(static_cast<int32_t>(i));
    }
  }
  if (chain.layers.empty()) return chain;
  chain.cuts.resize(chain.layers.size() - 1);
  for (size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId id{static_cast<int32_t>(t)};
    const Bytes bytes = PerSample(graph, id);
    for (int l = forward[t].written; l >= 0 && l < forward[t].last_read; ++l) {
      chain.cuts[static_cast<size_t>(l)].forward.push_back(id);
      chain.cuts[static_cast<size_t>(l)].forward_bytes += bytes;
    }
    for (int l = backward[t].first_read; l < backward[t].written; ++l) {
      chain.cuts[static_cast<size_t>(l)].backward.push_back(id);
      chain.cuts[static_cast<size_t>(l)].backward_bytes += bytes;
    }
  }
  return chain;
}

}  // namespace heddle
