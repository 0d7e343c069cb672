#include "run/torch/torch_executor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/check.h"
#include "run/initial_values.h"

namespace heddle {
namespace {

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
  const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(ScalarOf(dtype)));
  const auto fill = [&](auto* out) {
    std::transform(values.begin(), values.end(), out, [](double value) {
      return static_cast<std::remove_pointer_t<decltype(out)>>(value);
    });
  };
  switch (tensor.scalar_type()) {
    case at::kDouble:
      fill(tensor.data_ptr<double>());
      break;
    case at::kLong:
      fill(tensor.data_ptr<int64_t>());
      break;
    default:
      fill(tensor.data_ptr<float>());
  }
  return tensor;
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
                             const DataSource& data, const TrainOptions& options,
                             const TensorsByName& values)
    : p_(program), g_(graph), data_(data), options_(options) {
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(memory_.get());
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
    const TensorId id = graph_tensor_[static_cast<size_t>(ref.tensor)];
    const auto given = values.find(graph.tensor(id).name);
    const at::Tensor whole =
        given != values.end() ? given->second : InitialTensor(graph, id, options);
    const SlicePtr slice = SliceFor(ref.tensor, ref.slice);
    const at::Tensor part = Narrow(whole, p_.SliceOf(ref.tensor, -1), *slice).contiguous();
    // Others may start from the same values: who updates needs its own.
    const bool shared = given != values.end() && options.training;
    buffers_[KeyOf(ref, 0)].part = {slice, shared ? part.clone() : part};
  }
}

const TorchExecutor::CompiledSegment& TorchExecutor::Compile(int32_t id) {
  const auto [found, is_new] = compiled_.try_emplace(id);
  if (!is_new) return found->second;
  CompiledSegment& compiled = found->second;
  std::unordered_map<TensorId, size_t> places;
  const auto place_of = [&](TensorId tensor) {
    return places.try_emplace(tensor, places.size()).first->second;
  };
  std::vector<size_t> last_use;  // by place
  for (const SegmentOp& segment_op : p_.segment(id).ops) {
    HEDDLE_CHECK(segment_op.shards < 0);
    CompiledOp op{&g_.op(*g_.FindOp(p_.NameOf(segment_op))), {}, {}, {}, {}};
    for (const Operand& input : op.op->inputs) op.inputs.push_back(place_of(input.tensor));
    for (const Operand& output : op.op->outputs) op.outputs.push_back(place_of(output.tensor));
    last_use.resize(places.size());
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const size_t place : *operands) last_use[place] = compiled.ops.size();
    }
    compiled.ops.push_back(std::move(op));
  }
  std::set<size_t> kept;  // what leaves the segment
  for (const Port& port : p_.segment(id).ports) {
    const TensorId tensor = graph_tensor_[static_cast<size_t>(port.tensor)];
    compiled.ports.push_back(
        {place_of(tensor), tensor, g_.tensor(tensor).role, SliceFor(port.tensor, port.slice)});
    if (port.use != PortUse::kRead && port.use != PortUse::kConsume) kept.insert(place_of(tensor));
  }
  compiled.places = places.size();
  for (size_t k = 0; k < compiled.ops.size(); ++k) {
    CompiledOp& op = compiled.ops[k];
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      const bool again = std::find(op.inputs.begin() + static_cast<std::ptrdiff_t>(j) + 1,
                                   op.inputs.end(), op.inputs[j]) != op.inputs.end();
      op.last.push_back(!again && last_use[op.inputs[j]] == k && !kept.contains(op.inputs[j]));
    }
    for (const size_t place : op.outputs) {
      if (last_use[place] == k && !kept.contains(place)) op.dead.push_back(place);
    }
  }
  return compiled;
}

TorchExecutor::SlicePtr TorchExecutor::SliceFor(int32_t tensor, int32_t slice) {
  SlicePtr& found = slices_[{tensor, slice}];
  if (found == nullptr) found = std::make_shared<const Slice>(p_.SliceOf(tensor, slice));
  return found;
}

// Parts that came apart become one, along the axis in which they differ.
void TorchExecutor::Join(Buffer& buffer) {
  std::vector<Part> parts = std::move(buffer.more);
  parts.push_back(std::move(buffer.part));
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return *a.slice < *b.slice; });
  size_t axis = 0;
  while ((*parts[0].slice)[axis] == (*parts[1].slice)[axis]) ++axis;
  std::vector<at::Tensor> tensors;
  for (const Part& part : parts) tensors.push_back(part.tensor);
  Slice joined = *parts.front().slice;
  joined[axis].end = (*parts.back().slice)[axis].end;
  buffer.more.clear();
  buffer.part = {std::make_shared<const Slice>(std::move(joined)),
                 at::cat(tensors, static_cast<int64_t>(axis))};
}

// The part of a buffer that `ref` means.
at::Tensor TorchExecutor::Whole(const BufferRef& ref, const SlicePtr& wanted, int64_t i) {
  Buffer& buffer = buffers_.at(KeyOf(ref, i));
  if (!buffer.more.empty()) Join(buffer);
  const auto& [slice, tensor] = buffer.part;
  // A collective's operand names no slice: it means all that is here.
  if (slice == wanted || (ref.slice < 0 && !Contains(*slice, *wanted))) return tensor;
  return Narrow(tensor, *slice, *wanted);
}

at::Tensor TorchExecutor::LoadInput(TensorId id, int64_t rows, int64_t first_sample, int64_t body) {
  std::vector<int64_t> shape = g_.tensor(id).shape;
  shape[0] = rows;
  const DType dtype = g_.tensor(id).dtype == DType::kI64 ? DType::kI64 : options_.dtype;
  const int64_t first = options_.first_sample + body * p_.samples() + first_sample;
  return ToTensor(
      options_.training ? data_.Train(id, first, rows) : data_.Validation(id, first, rows), shape,
      dtype);
}

at::Tensor TorchExecutor::Zeros(TensorId tensor) const {
  return at::zeros(g_.tensor(tensor).shape, at::TensorOptions().dtype(ScalarOf(options_.dtype)));
}

int64_t TorchExecutor::FirstSample(const Segment& segment, const Instruction& in, int64_t i) const {
  if (!in.microbatch.present()) return 0;
  const auto per_body = static_cast<int64_t>(first_row_.size());
  return first_row_[static_cast<size_t>(in.microbatch.value(i) % per_body)] + segment.rows.begin;
}

// What the segment finds: its data, and the buffers it reads, changes or adds to. What it consumes
// is nobody else's from here on.
std::vector<at::Tensor> TorchExecutor::TakeInputs(const Segment& segment,
                                                  const CompiledSegment& compiled,
                                                  const Instruction& in, int64_t i) {
  std::vector<at::Tensor> live(compiled.places);
  for (size_t k = 0; k < compiled.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    const CompiledPort& at = compiled.ports[k];
    const BufferRef ref = BufferOf(port, in);
    if (at.role == Role::kInput) {
      const auto per_body = static_cast<int64_t>(first_row_.size());
      const int64_t m = in.microbatch.value(i);
      const int64_t step = m < per_body && !in.microbatch.relative() ? i : m / per_body;
      live[at.place] = LoadInput(at.tensor, segment.rows.size(), FirstSample(segment, in, i), step);
      continue;
    }
    const bool adds =
        port.use == PortUse::kAccumulate || (port.use == PortUse::kAdd && in.accumulate);
    if (port.use == PortUse::kWrite || (port.use == PortUse::kAdd && !adds)) continue;
    live[at.place] = Whole(ref, at.slice, i);
    if (port.use != PortUse::kConsume) continue;
    if (segment.phase == SegmentPhase::kUpdate && options_.keep_gradients) {
      gradients_[g_.tensor(at.tensor).name] = live[at.place];
    }
    Free(ref, i);
  }
  return live;
}

void TorchExecutor::KeepOutputs(const Segment& segment, const CompiledSegment& compiled,
                                const Instruction& in, int64_t i, std::vector<at::Tensor>& live) {
  for (size_t k = 0; k < compiled.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    const CompiledPort& at = compiled.ports[k];
    const bool added =
        port.use == PortUse::kAccumulate || (port.use == PortUse::kAdd && in.accumulate);
    if (added || (port.use != PortUse::kWrite && port.use != PortUse::kAdd)) continue;
    at::Tensor& value = live[at.place];
    if (at.role == Role::kLoss) {
      const std::lock_guard lock(losses_mutex_);
      losses_[options_.first_step + i] += value.item<double>();
      continue;
    }
    if (!value.defined()) value = Zeros(at.tensor);  // a segment without ops
    const BufferRef ref = BufferOf(port, in);
    buffers_[KeyOf(ref, i)].part = {at.slice, value.contiguous()};
  }
}

std::vector<at::Tensor> TorchExecutor::RunOp(const Op& op, std::vector<at::Tensor> inputs,
                                             const KernelContext& context,
                                             const at::Tensor& sum) const {
  if (!listener_) return RunKernel(g_, op, std::move(inputs), context, sum);
  const auto start = std::chrono::steady_clock::now();
  std::vector<at::Tensor> outputs = RunKernel(g_, op, std::move(inputs), context, sum);
  listener_(op, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return outputs;
}

void TorchExecutor::Compute(const Instruction& in, int64_t i) {
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(memory_.get());
  const Segment& segment = p_.segment(in.target);
  const CompiledSegment& compiled = Compile(in.target);
  std::vector<at::Tensor> live = TakeInputs(segment, compiled, in, i);
  KernelContext context;
  context.batch = g_.batch();
  context.step = options_.first_step + i;
  context.learning_rate =
      options_.schedule.At(context.step, options_.total_steps, options_.learning_rate);
  context.training = options_.training;
  context.seed = options_.seed;
  context.first_sample = FirstSample(segment, in, i);
  context.dtype = ScalarOf(options_.dtype);
  for (const CompiledOp& op : compiled.ops) {
    std::vector<at::Tensor> inputs(op.inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      at::Tensor& value = live[op.inputs[k]];
      inputs[k] = op.last[k] ? std::move(value) : value;
    }
    const bool adds = InfoOf(op.op->kind).adds;
    std::vector<at::Tensor> outputs =
        RunOp(*op.op, std::move(inputs), context, adds ? live[op.outputs[0]] : at::Tensor());
    for (size_t o = 0; o < outputs.size(); ++o) {
      at::Tensor& value = live[op.outputs[o]];
      if (!outputs[o].defined()) continue;  // added
      if (value.defined()) {                // a sum of several, or of earlier microbatches
        value.add_(outputs[o]);
      } else {
        value = std::move(outputs[o]);
      }
    }
    for (const size_t place : op.dead) live[place].reset();
  }
  KeepOutputs(segment, compiled, in, i, live);
}

Payload TorchExecutor::Outgoing(const BufferRef& ref, int64_t i) {
  const MemoryScope scope(memory_.get());
  return PayloadOf(Whole(ref, SliceFor(ref.tensor, ref.slice), i).contiguous());
}

Payload TorchExecutor::Incoming(const BufferRef& ref, int64_t i) {
  const MemoryScope scope(memory_.get());
  const SlicePtr slice = SliceFor(ref.tensor, ref.slice);
  std::vector<int64_t> shape;
  for (const Range& range : *slice) shape.push_back(range.size());
  const at::Tensor part = at::empty(shape, at::TensorOptions().dtype(ScalarOf(options_.dtype)));
  Buffer& buffer = buffers_[KeyOf(ref, i)];
  if (buffer.part.tensor.defined()) {
    buffer.more.push_back({slice, part});
  } else {
    buffer.part = {slice, part};
  }
  return PayloadOf(part);
}

Payload TorchExecutor::InPlace(const BufferRef& ref, int64_t i) {
  return PayloadOf(Whole(ref, SliceFor(ref.tensor, ref.slice), i));
}

void TorchExecutor::Free(const BufferRef& ref, int64_t i) { buffers_.erase(KeyOf(ref, i)); }

void TorchExecutor::Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) {
  buffers_[KeyOf(name, i)] = buffers_.at(KeyOf(buffer, i));
}

double TorchExecutor::TakeLoss(int64_t step) {
  const std::lock_guard lock(losses_mutex_);
  const auto found = losses_.find(step);
  if (found == losses_.end()) return 0;
  const double loss = found->second;
  losses_.erase(found);
  return loss;
}

TensorsByName TorchExecutor::Values(Role role) const {
  TensorsByName values;
  for (const auto& [key, buffer] : buffers_) {
    const ProgramTensor& tensor = p_.tensor(key.tensor);
    if (tensor.role == role) values[tensor.name] = buffer.part.tensor;
  }
  return values;
}

}  // namespace heddle
