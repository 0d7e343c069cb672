#include "run/torch/torch_executor.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/check.h"
#include "run/data/synthetic.h"
#include "run/initial_values.h"

namespace heddle {
namespace {

constexpr size_t kNever = SIZE_MAX;

// The part of a tensor that `inner` is, when the tensor holds `outer`.
at::Tensor Narrow(const at::Tensor& tensor, const Slice& outer, const Slice& inner) {
  at::Tensor part = tensor;
  for (size_t axis = 0; axis < outer.size(); ++axis) {
    if (inner[axis] == outer[axis]) continue;
    part = part.narrow(static_cast<int64_t>(axis), inner[axis].begin - outer[axis].begin,
                       inner[axis].size());
  }
  return part;
}

Payload PayloadOf(const at::Tensor& tensor) {
  HEDDLE_CHECK(tensor.is_contiguous());
  auto owner = std::make_shared<at::Tensor>(tensor);
  return {owner, static_cast<std::byte*>(tensor.data_ptr()),
          static_cast<size_t>(tensor.numel()) * tensor.element_size()};
}

}  // namespace

at::ScalarType ScalarOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return at::kDouble;
    case DType::kI64:
      return at::kLong;
    default:
      return at::kFloat;
  }
}

at::Tensor ToTensor(const std::vector<double>& values, const std::vector<int64_t>& shape,
                    DType dtype) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(at::kDouble));
  std::copy(values.begin(), values.end(), tensor.data_ptr<double>());
  return tensor.to(ScalarOf(dtype));
}

at::Tensor InitialTensor(const Graph& graph, TensorId id, const TrainOptions& options) {
  const Tensor& tensor = graph.tensor(id);
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.tensor != id) continue;
    return ToTensor(InitialParameter(graph, parameter, options.seed), tensor.shape, options.dtype);
  }
  HEDDLE_CHECK(tensor.role == Role::kState);
  return at::zeros(tensor.shape, at::TensorOptions().dtype(ScalarOf(options.dtype)));
}

TorchExecutor::TorchExecutor(const Program& program, int32_t device, const Graph& graph,
                             const TrainOptions& options)
    : p_(program), g_(graph), options_(options) {
  for (const ProgramTensor& tensor : program.tensors) {
    const auto id = graph.FindTensor(tensor.name);
    HEDDLE_CHECK(id.has_value());
    graph_tensor_.push_back(*id);
  }
  int64_t row = 0;
  for (const int64_t rows : program.microbatch_rows) {
    first_row_.push_back(row);
    row += rows;
  }
  for (const BufferRef& ref : program.devices[static_cast<size_t>(device)].holds) {
    const at::Tensor whole =
        InitialTensor(graph, graph_tensor_[static_cast<size_t>(ref.tensor)], options);
    const Slice slice = p_.SliceOf(ref.tensor, ref.slice);
    const at::Tensor part = Narrow(whole, p_.SliceOf(ref.tensor, -1), slice).contiguous();
    buffers_[KeyOf(ref, 0)].parts = {{slice, part}};
  }
}

const TorchExecutor::CompiledSegment& TorchExecutor::Compile(int32_t id) {
  const auto [found, is_new] = compiled_.try_emplace(id);
  if (!is_new) return found->second;
  CompiledSegment& compiled = found->second;
  compiled.last_use.assign(g_.tensors().size(), kNever);
  for (const SegmentOp& segment_op : p_.segment(id).ops) {
    HEDDLE_CHECK(segment_op.shards < 0);
    compiled.ops.push_back(*g_.FindOp(p_.NameOf(segment_op)));
    const Op& op = g_.op(compiled.ops.back());
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) {
        compiled.last_use[static_cast<size_t>(operand.tensor.value)] = compiled.ops.size() - 1;
      }
    }
  }
  return compiled;
}

// The part of a buffer that `ref` means; parts that came apart are joined first.
at::Tensor TorchExecutor::Whole(const BufferRef& ref, int64_t i) {
  Buffer& buffer = buffers_.at(KeyOf(ref, i));
  const Slice wanted = p_.SliceOf(ref.tensor, ref.slice);
  if (buffer.parts.size() > 1) {
    std::sort(buffer.parts.begin(), buffer.parts.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t axis = 0;
    while (buffer.parts[0].first[axis] == buffer.parts[1].first[axis]) ++axis;
    std::vector<at::Tensor> tensors;
    for (const auto& part : buffer.parts) tensors.push_back(part.second);
    Slice joined = buffer.parts.front().first;
    joined[axis].end = buffer.parts.back().first[axis].end;
    buffer.parts = {{joined, at::cat(tensors, static_cast<int64_t>(axis))}};
  }
  const auto& [slice, tensor] = buffer.parts[0];
  // A collective's operand names no slice: it means all that is here.
  if (ref.slice < 0 && !Contains(slice, wanted)) return tensor;
  return Narrow(tensor, slice, wanted);
}

at::Tensor TorchExecutor::LoadInput(TensorId id, const Segment& segment, const Instruction& in,
                                    int64_t i) {
  const auto per_body = static_cast<int64_t>(first_row_.size());
  const int64_t m = in.microbatch.value(i);
  const int64_t body = m < per_body && !in.microbatch.relative() ? i : m / per_body;
  const int64_t first =
      body * p_.samples() + first_row_[static_cast<size_t>(m % per_body)] + segment.rows.begin;
  std::vector<int64_t> shape = g_.tensor(id).shape;
  shape[0] = segment.rows.size();
  const DType dtype = g_.tensor(id).dtype == DType::kI64 ? DType::kI64 : options_.dtype;
  return ToTensor(SyntheticInput(g_, id, options_.seed, first, shape[0]), shape, dtype);
}

void TorchExecutor::Compute(const Instruction& in, int64_t i) {
  const Segment& segment = p_.segment(in.target);
  const CompiledSegment& compiled = Compile(in.target);
  std::unordered_map<TensorId, at::Tensor> live;
  std::unordered_map<TensorId, bool> keep;
  for (const Port& port : segment.ports) {
    const TensorId id = graph_tensor_[static_cast<size_t>(port.tensor)];
    const Role role = g_.tensor(id).role;
    if (role == Role::kInput) {
      live[id] = LoadInput(id, segment, in, i);
    } else if (port.use == PortUse::kRead || port.use == PortUse::kConsume ||
               port.use == PortUse::kChange) {
      live[id] = Whole(BufferOf(port, in), i);
    } else {
      keep[id] = true;
    }
  }
  // The buffer that leaves now must not keep memory alive while the segment runs.
  for (const Port& port : segment.ports) {
    if (port.use != PortUse::kConsume) continue;
    const TensorId id = graph_tensor_[static_cast<size_t>(port.tensor)];
    if (segment.phase == SegmentPhase::kUpdate) gradients_[g_.tensor(id).name] = live[id];
    Free(BufferOf(port, in), i);
  }
  const KernelContext context{g_.batch(), options_.learning_rate, i};
  for (size_t k = 0; k < compiled.ops.size(); ++k) {
    const Op& op = g_.op(compiled.ops[k]);
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) inputs.push_back(live.at(input.tensor));
    std::vector<at::Tensor> outputs = RunKernel(g_, op, inputs, context);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const TensorId id = op.outputs[o].tensor;
      const bool sums = g_.tensor(id).role == Role::kWeightGradient && live.contains(id);
      live[id] = sums ? live[id] + outputs[o] : outputs[o];
    }
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) {
        const bool last = compiled.last_use[static_cast<size_t>(operand.tensor.value)] == k;
        if (last && !keep.contains(operand.tensor)) live.erase(operand.tensor);
      }
    }
  }
  for (const Port& port : segment.ports) {
    const TensorId id = graph_tensor_[static_cast<size_t>(port.tensor)];
    const bool adds = port.use == PortUse::kAdd || port.use == PortUse::kAccumulate;
    if (port.use != PortUse::kWrite && !adds) continue;
    const BufferRef ref = BufferOf(port, in);
    if (g_.tensor(id).role == Role::kLoss) {
      losses_[i] += live.at(id).item<double>();
      continue;
    }
    if (!live.contains(id)) {  // a segment without ops: zeros
      live[id] =
          at::zeros(g_.tensor(id).shape, at::TensorOptions().dtype(ScalarOf(options_.dtype)));
    }
    const bool into = port.use == PortUse::kAccumulate || (adds && in.accumulate);
    if (into) {
      buffers_.at(KeyOf(ref, i)).parts[0].second.add_(live.at(id));
    } else {
      buffers_[KeyOf(ref, i)].parts = {
          {p_.SliceOf(ref.tensor, ref.slice), live.at(id).contiguous()}};
    }
  }
}

Payload TorchExecutor::Outgoing(const BufferRef& ref, int64_t i) {
  return PayloadOf(Whole(ref, i).contiguous());
}

Payload TorchExecutor::Incoming(const BufferRef& ref, int64_t i) {
  const Slice slice = p_.SliceOf(ref.tensor, ref.slice);
  std::vector<int64_t> shape;
  for (const Range& range : slice) shape.push_back(range.size());
  const at::Tensor part = at::empty(shape, at::TensorOptions().dtype(ScalarOf(options_.dtype)));
  buffers_[KeyOf(ref, i)].parts.emplace_back(slice, part);
  return PayloadOf(part);
}

Payload TorchExecutor::InPlace(const BufferRef& ref, int64_t i) { return PayloadOf(Whole(ref, i)); }

void TorchExecutor::Free(const BufferRef& ref, int64_t i) { buffers_.erase(KeyOf(ref, i)); }

void TorchExecutor::Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) {
  buffers_[KeyOf(name, i)] = buffers_.at(KeyOf(buffer, i));
}

std::map<std::string, at::Tensor> TorchExecutor::Parameters() const {
  std::map<std::string, at::Tensor> parameters;
  for (const auto& [key, buffer] : buffers_) {
    const ProgramTensor& tensor = p_.tensor(key.tensor);
    if (tensor.role == Role::kParameter) parameters[tensor.name] = buffer.parts[0].second;
  }
  return parameters;
}

}  // namespace heddle
