#include "model/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/hash.h"

namespace heddle {
namespace {

bool IsIdentifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
}

Error BadGraph(const std::string& where, const std::string& what) {
  return BadInput("model", fmt::format("{}: {}", where, what));
}

// What decides an op's result and is not its operands. Not the norm to clip at: like the learning
// rate it does not change what is done.
void HashShape(const OpAttributes& a, Hash& hash) {
  hash.Add(a.epsilon);
  for (const int64_t extent : {a.window.height, a.window.width, a.window.stride,
                               a.window.pad_height, a.window.pad_width, a.offset, a.capacity}) {
    hash.Add(extent);
  }
  hash.Add(a.rate);
  hash.Add(a.mask);
  hash.Add(a.weight);
  hash.Add(a.decay);
}

}  // namespace

int64_t Tensor::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

Result<Graph> Graph::Make(std::vector<Tensor> tensors, std::vector<Op> ops,
                          std::vector<Parameter> parameters, std::vector<std::string> layers,
                          int64_t batch) {
  Graph graph;
  graph.tensors_ = std::move(tensors);
  graph.ops_ = std::move(ops);
  graph.parameters_ = std::move(parameters);
  graph.layers_ = std::move(layers);
  graph.batch_ = batch;
  for (size_t i = 0; i < graph.tensors_.size(); ++i) {
    const std::string& name = graph.tensors_[i].name;
    if (!IsIdentifier(name)) return BadGraph(name, "not a valid tensor name");
    if (!graph.tensor_index_.emplace(name, static_cast<int32_t>(i)).second) {
      return BadGraph(name, "two tensors have this name");
    }
  }
  for (size_t i = 0; i < graph.ops_.size(); ++i) {
    const std::string& name = graph.ops_[i].name;
    if (!IsIdentifier(name)) return BadGraph(name, "not a valid op name");
    if (!graph.op_index_.emplace(name, static_cast<int32_t>(i)).second) {
      return BadGraph(name, "two ops have this name");
    }
  }
  HEDDLE_RETURN_IF_ERROR(graph.Validate());
  for (const Op& op : graph.ops_) {
    if (op.kind == OpKind::kSquareSum) graph.clip_norm_ = op.outputs[0].tensor;
  }
  return graph;
}

Status Graph::ValidateOp(const Op& op) const {
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      const Tensor& t = tensor(operand.tensor);
      if (t.shape.size() != operand.letters.size()) {
        return BadGraph(op.name, fmt::format("{} has {} axes, the op names {}", t.name,
                                             t.shape.size(), operand.letters.size()));
      }
      for (size_t axis = 0; axis < t.shape.size(); ++axis) {
        const size_t at = op.IndexOf(operand.letters[axis]);
        if (at == std::string::npos || op.extents[at] != t.shape[axis]) {
          return BadGraph(op.name, fmt::format("axis {} of {} does not match its letter '{}'", axis,
                                               t.name, operand.letters[axis]));
        }
      }
      if (t.per_sample != (!operand.letters.empty() && operand.letters[0] == 'b')) {
        return BadGraph(op.name, fmt::format("'b' must be the sample axis of {}", t.name));
      }
    }
  }
  if (!op.layer.valid() || op.layer.value >= static_cast<int>(layers_.size())) {
    return BadGraph(op.name, "belongs to no layer");
  }
  return Ok();
}

Status Graph::Validate() const {
  std::vector<LayerId> written(tensors_.size());  // layer of the (last) producer
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Role role = tensors_[i].role;
    const bool given = role == Role::kInput || role == Role::kParameter || role == Role::kState;
    if (given) written[i] = LayerId{0};
  }
  for (const Op& op : ops_) {
    HEDDLE_RETURN_IF_ERROR(ValidateOp(op));
    for (const Operand& input : op.inputs) {
      const LayerId producer = written[static_cast<size_t>(input.tensor.value)];
      if (!producer.valid()) {
        return BadGraph(op.name, tensor(input.tensor).name + " is read before it is written");
      }
      if (op.phase == Phase::kForward && producer > op.layer) {
        return BadGraph(op.name, tensor(input.tensor).name + " comes from a later layer");
      }
    }
    for (const Operand& output : op.outputs) {
      const Tensor& t = tensor(output.tensor);
      LayerId& producer = written[static_cast<size_t>(output.tensor.value)];
      const bool several = t.role == Role::kWeightGradient || op.phase == Phase::kUpdate;
      if (producer.valid() && !several) return BadGraph(op.name, t.name + " is written twice");
      producer = op.layer;
    }
  }
  std::vector<int> updates(tensors_.size(), 0);
  for (const Op& op : ops_) {
    if (op.phase != Phase::kUpdate) continue;
    for (const Operand& output : op.outputs) ++updates[static_cast<size_t>(output.tensor.value)];
  }
  size_t parameters = 0;
  for (const Tensor& t : tensors_) parameters += t.role == Role::kParameter ? 1 : 0;
  if (parameters != parameters_.size()) return BadGraph("parameters", "one is not listed");
  for (const Parameter& p : parameters_) {
    const std::string& name = tensor(p.tensor).name;
    if (!p.gradient.valid() || !written[static_cast<size_t>(p.gradient.value)].valid()) {
      return BadGraph(name, "has no gradient");
    }
    if (!p.update.valid() || updates[static_cast<size_t>(p.tensor.value)] != 1) {
      return BadGraph(name, "must have exactly one update");
    }
    if (p.layers.empty()) return BadGraph(name, "is used by no layer");
  }
  return Ok();
}

std::optional<TensorId> Graph::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  if (found == tensor_index_.end()) return std::nullopt;
  return TensorId{found->second};
}

std::optional<OpId> Graph::FindOp(std::string_view name) const {
  const auto found = op_index_.find(std::string(name));
  if (found == op_index_.end()) return std::nullopt;
  return OpId{found->second};
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& p : parameters_) count += tensor(p.tensor).elements();
  return count;
}

std::string Graph::ContentHash() const {
  Hash hash;
  hash.Add(batch_);
  for (const Tensor& t : tensors_) {
    hash.Add(t.name);
    hash.Add(static_cast<int64_t>(t.dtype));
    hash.Add(static_cast<int64_t>(t.role));
    for (const int64_t extent : t.shape) hash.Add(extent);
  }
  for (const Op& op : ops_) {
    hash.Add(op.name);
    hash.Add(InfoOf(op.kind).name);
    hash.Add(static_cast<int64_t>(op.layer.value));
    hash.Add(op.work);
    hash.Add(op.attributes.profiled_seconds.value);
    hash.Add(op.attributes.profiled_backward.value);
    hash.Add(op.attributes.profiled_rows);
    hash.Add(op.attributes.profiled_rate.value);
    hash.Add(static_cast<int64_t>(op.attributes.causal));
    HashShape(op.attributes, hash);
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      hash.Add(static_cast<int64_t>(operands->size()));
      for (const Operand& operand : *operands) {
        hash.Add(static_cast<int64_t>(operand.tensor.value));
        hash.Add(operand.letters);
      }
    }
  }
  return hash.Hex();
}

std::vector<int64_t> ExtentsForRows(const Op& op, int64_t rows) {
  std::vector<int64_t> extents = op.extents;
  if (const size_t at = op.IndexOf('b'); at != std::string::npos) extents[at] = rows;
  return extents;
}

namespace {

double PointsOf(const Op& op, std::span<const int64_t> extents) {
  double points = 1;
  for (const char letter : op.work) points *= static_cast<double>(extents[op.IndexOf(letter)]);
  return points;
}

}  // namespace

Flops FlopsOf(const Op& op, std::span<const int64_t> extents) {
  return {InfoOf(op.kind).flops_per_point * PointsOf(op, extents)};
}

int64_t ElementsOf(const Op& op, const Operand& operand, std::span<const int64_t> extents) {
  int64_t elements = 1;
  for (const char letter : operand.letters) elements *= extents[op.IndexOf(letter)];
  return elements;
}

Bytes TrafficOf(const Graph& graph, const Op& op, std::span<const int64_t> extents) {
  Bytes total;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      int64_t elements = ElementsOf(op, operand, extents);
      const bool gathered =
          std::any_of(operand.letters.begin(), operand.letters.end(),
                      [&](char letter) { return op.work.find(letter) == std::string::npos; });
      if (gathered) {
        elements = std::min(elements, static_cast<int64_t>(PointsOf(op, extents)));
      }
      total += Bytes{elements * SizeOf(graph.tensor(operand.tensor).dtype)};
    }
  }
  return total;
}

Bytes WorkspaceOf(const Graph& graph, const Op& op, std::span<const int64_t> extents) {
  const auto extent = [&](char letter) { return extents[op.IndexOf(letter)]; };
  const auto bytes = [&](int64_t all, int64_t least) {
    const int64_t elements = std::max(least, std::min(all, kWorkspaceElements));
    return Bytes{elements * SizeOf(graph.tensor(op.inputs[0].tensor).dtype)};
  };
  const auto scores = [&](char queries) {
    const int64_t head = extent(queries) * extent('S');
    return bytes(extent('b') * extent('a') * head, head);
  };
  switch (op.kind) {
    case OpKind::kAttention:
      return scores('S');
    case OpKind::kAttentionInput:
      return scores('S') * 2;
    case OpKind::kCrossAttention:
      return scores('T');
    case OpKind::kCrossAttentionQuery:
    case OpKind::kCrossAttentionContext:
      return scores('T') * 2;
    case OpKind::kEinsum: {  // a batch of products permutes copies of its activations
      Bytes copies;
      bool batched = false;
      for (const char letter : op.outputs[0].letters) {
        batched |= op.inputs[0].letters.find(letter) != std::string::npos &&
                   op.inputs[1].letters.find(letter) != std::string::npos;
      }
      for (const Operand* operand : {&op.inputs[0], &op.inputs[1], &op.outputs[0]}) {
        const Tensor& tensor = graph.tensor(operand->tensor);
        if (!batched || !tensor.per_sample) continue;
        copies += Bytes{ElementsOf(op, *operand, extents) * SizeOf(tensor.dtype)};
      }
      return copies;
    }
    case OpKind::kConv2dWeight:  // libtorch asks for the weight, whose values do not matter
      return Bytes{ElementsOf(op, op.outputs[0], extents) *
                   SizeOf(graph.tensor(op.outputs[0].tensor).dtype)};
    case OpKind::kBatchNormSums:  // one sample
      return Bytes{ElementsOf(op, op.inputs[0], extents) / std::max<int64_t>(1, extent('b')) *
                   SizeOf(graph.tensor(op.inputs[0].tensor).dtype)};
    case OpKind::kCrossEntropy:
      return bytes(ElementsOf(op, op.inputs[0], extents), extent('V'));
    default:
      return Bytes{};
  }
}

}  // namespace heddle
