#include "program/lower/chunk_memory.h"

#include <algorithm>
#include <set>

namespace heddle {
namespace {

Bytes PerSample(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  return tensor.per_sample ? tensor.bytes() / graph.batch() : Bytes{0};
}

Bytes PerSample(const Graph& graph, const std::set<TensorId>& tensors) {
  Bytes bytes;
  for (const TensorId tensor : tensors) bytes += PerSample(graph, tensor);
  return bytes;
}

// Activations without a sample axis: statistics of the samples computed together.
Bytes StatisticsOf(const Graph& graph, const std::set<TensorId>& tensors) {
  Bytes bytes;
  for (const TensorId id : tensors) {
    const Tensor& tensor = graph.tensor(id);
    const bool flows = tensor.role == Role::kActivation || tensor.role == Role::kGradient;
    if (flows && !tensor.per_sample) bytes += tensor.bytes();
  }
  return bytes;
}

const Cut* CutAfter(const LayerChain& chain, int layer) {
  const bool inside = layer >= 0 && layer < static_cast<int>(chain.cuts.size());
  return inside ? &chain.cuts[static_cast<size_t>(layer)] : nullptr;
}

}  // namespace

Bytes ChunkMemory::Peak(int64_t rows, int64_t microbatches_in_flight) const {
  Bytes working;
  for (const Line& line : at_work) working = std::max(working, line.fixed + line.per_sample * rows);
  const int64_t others = std::max<int64_t>(0, microbatches_in_flight - 1);
  return weights + states + gradients + (in_flight * rows + statistics) * others +
         std::max(working, in_flight * rows + statistics);
}

ChunkMemory MemoryOf(const Graph& graph, const LayerChain& chain, const ChunkOptions& options) {
  ChunkMemory memory;
  std::set<int32_t> parameters;
  for (int l = options.layers.first; l <= options.layers.last; ++l) {
    const auto& list = chain.layers[static_cast<size_t>(l)].parameters;
    parameters.insert(list.begin(), list.end());
  }
  for (const int32_t p : parameters) {
    const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
    memory.weights += graph.tensor(parameter.tensor).bytes();
    memory.gradients += graph.tensor(parameter.gradient).bytes();
    for (const TensorId state : parameter.states) memory.states += graph.tensor(state).bytes();
  }
  const ChunkSegments segments = SegmentsOf(graph, chain, options);
  // Keeps account of one microbatch from its arrival to the end of its backward.
  std::set<TensorId> live;
  if (const Cut* before = CutAfter(chain, options.layers.first - 1)) {
    live.insert(before->forward.begin(), before->forward.end());
  }
  bool backward = false;
  for (const SegmentTemplate& segment : segments.segments) {
    if (segment.phase != SegmentPhase::kForward && !backward) {
      backward = true;
      const Cut* after = CutAfter(chain, options.layers.last);
      if (after != nullptr) live.insert(after->backward.begin(), after->backward.end());
    }
    // Apart from workspaces that level off scratch is convex in the rows: its value at none and its
    // steepest slope bound it.
    constexpr int64_t kMany = 1 << 16;
    Bytes workspace;
    for (const OpId id : segment.ops) {
      const Op& op = graph.op(id);
      const Bytes most = WorkspaceOf(graph, op, ExtentsForRows(op, kMany));
      const bool levels_off = WorkspaceOf(graph, op, ExtentsForRows(op, 2 * kMany)) == most;
      if (levels_off) workspace = std::max(workspace, most);
    }
    const Bytes fixed = StatisticsOf(graph, live) + ScratchOf(graph, segment, 0) + workspace;
    const Bytes slope = ScratchOf(graph, segment, kMany + 1) - ScratchOf(graph, segment, kMany);
    memory.at_work.push_back({fixed, PerSample(graph, live) + slope});
    for (const TensorPort& port : segment.ports) {
      if (port.use == PortUse::kWrite) live.insert(port.tensor);
      if (port.use == PortUse::kConsume) live.erase(port.tensor);
    }
    const bool first = &segment == &segments.segments.front();
    if (first) {
      memory.in_flight = PerSample(graph, live);
      memory.statistics = StatisticsOf(graph, live);
    }
  }
  return memory;
}

Bytes ReadByWeightPart(const Graph& graph, const LayerChain& chain, int layer) {
  std::set<TensorId> read;
  for (const OpId id : chain.layers[static_cast<size_t>(layer)].backward_weight) {
    for (const Operand& operand : graph.op(id).inputs) {
      const Role role = graph.tensor(operand.tensor).role;
      if (role == Role::kActivation || role == Role::kGradient) read.insert(operand.tensor);
    }
  }
  return PerSample(graph, read);
}

}  // namespace heddle
