#include "run/torch/torch_executor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "base/check.h"
#include "program/unroll.h"
#include "run/initial_values.h"
#include "run/torch/finite_tensor.h"

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

std::vector<int64_t> ExtentsOf(const Slice& slice) {
  std::vector<int64_t> extents;
  for (const Range& range : slice) extents.push_back(range.size());
  return extents;
}

// What is in both; nothing is the empty beginning of the second.
Slice Intersection(const Slice& a, const Slice& b) {
  Slice common;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    const Range range{std::max(a[axis].begin, b[axis].begin), std::min(a[axis].end, b[axis].end)};
    common.push_back(range.size() > 0 ? range : Range{b[axis].begin, b[axis].begin});
  }
  return common;
}

// The slice once for each member, with its share of the axis, which begins at `begin`.
std::vector<Slice> Divide(const Slice& slice, const Division& division, int64_t begin) {
  std::vector<Slice> blocks;
  for (const int64_t size : division.sizes) {
    blocks.push_back(slice);
    blocks.back()[static_cast<size_t>(division.dim)] = {begin, begin + size};
    begin += size;
  }
  return blocks;
}

// Where a member's share of the axis begins.
int64_t BeginOf(const Division& division, size_t rank) {
  const auto sizes = division.sizes.begin();
  return std::accumulate(sizes, sizes + static_cast<std::ptrdiff_t>(rank), int64_t{0});
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
    : p_(program), device_(device), g_(graph), data_(data), options_(options) {
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
  loss_share_ = static_cast<double>(graph.batch() * StepsPerBody(program)) /
                static_cast<double>(program.samples());
  for (const BufferRef& ref : program.devices[static_cast<size_t>(device)].holds) {
    const TensorId id = graph_tensor_[static_cast<size_t>(ref.tensor)];
    const auto given = values.find(graph.tensor(id).name);
    const at::Tensor whole =
        given != values.end() ? given->second : InitialTensor(graph, id, options);
    const SlicePtr slice = SliceFor(ref.tensor, ref.slice);
    // A part is copied, or it would keep the whole alive.
    const bool is_part = whole.sizes() == ExtentsOf(*slice);
    const at::Tensor part =
        is_part
            ? whole.contiguous()
            : Narrow(whole, p_.SliceOf(ref.tensor, -1), *slice).clone(at::MemoryFormat::Contiguous);
    // Others may start from the same values: who updates needs its own.
    const bool shared = given != values.end() && options.training;
    buffers_[KeyOf(ref, 0)].part = {slice, shared ? part.clone() : part};
  }
}

// The part of each of the op's letters that a segment computes.
std::vector<Range> TorchExecutor::PartsOf(const SegmentOp& segment_op, int32_t segment,
                                          const Op& op) const {
  std::vector<Range> parts;
  for (size_t k = 0; k < op.letters.size(); ++k) {
    const bool samples = op.letters[k] == 'b';
    parts.push_back({0, samples ? p_.segment(segment).rows.size() : op.extents[k]});
  }
  for (const auto& [letter, range] : p_.ShardsOf(segment_op)) parts[op.IndexOf(letter)] = range;
  return parts;
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
    CompiledOp op{&g_.op(*g_.FindOp(p_.NameOf(segment_op))), {}, {}, {}, {}, {}};
    if (p_.segment(id).joint || segment_op.shards >= 0) op.parts = PartsOf(segment_op, id, *op.op);
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
  for (size_t k = 0; k < compiled.ports.size(); ++k) {
    const Port& port = p_.segment(id).ports[k];
    compiled.ports[k].copied =
        port.versioned && port.use == PortUse::kRead && kept.contains(compiled.ports[k].place);
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

at::Tensor TorchExecutor::LoadInput(TensorId id, const Slice& slice, int64_t first_sample,
                                    int64_t body) {
  Slice rows_only = slice;  // whole samples come from the source
  std::vector<int64_t> shape = g_.tensor(id).shape;
  for (size_t axis = 1; axis < shape.size(); ++axis) rows_only[axis] = {0, shape[axis]};
  shape[0] = slice[0].size();
  const DType dtype = g_.tensor(id).dtype == DType::kI64 ? DType::kI64 : options_.dtype;
  if (shape[0] == 0) return Zeros(id, slice);
  const int64_t first = options_.first_sample + body * p_.samples() + first_sample;
  const at::Tensor samples = ToTensor(
      options_.training ? data_.Train(id, first, shape[0]) : data_.Validation(id, first, shape[0]),
      shape, dtype);
  return Narrow(samples, rows_only, slice).contiguous();
}

// The samples that a port means.
at::Tensor TorchExecutor::LoadInput(const CompiledPort& port, const Segment& segment,
                                    const Instruction& in, int64_t i) {
  Slice slice = *port.slice;
  // Without a slice of its own the port means the segment's rows.
  if (!segment.joint) slice[0] = segment.rows;
  const int64_t first = FirstSample(segment, in, i) + slice[0].begin - segment.rows.begin;
  return LoadInput(port.tensor, slice, first, BodyOf(p_, in, i));
}

at::ScalarType TorchExecutor::ScalarOf(TensorId tensor) const {
  return heddle::ScalarOf(g_.tensor(tensor).dtype == DType::kI64 ? DType::kI64 : options_.dtype);
}

at::Tensor TorchExecutor::Zeros(TensorId tensor, const Slice& slice) const {
  return at::zeros(ExtentsOf(slice), at::TensorOptions().dtype(ScalarOf(tensor)));
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
      live[at.place] = LoadInput(at, segment, in, i);
      if (WatchesAll()) Watch(StepAt(in, i), at.tensor, live[at.place]);
      continue;
    }
    const bool adds =
        port.use == PortUse::kAccumulate || (port.use == PortUse::kAdd && in.accumulate);
    if (port.use == PortUse::kWrite || (port.use == PortUse::kAdd && !adds)) continue;
    live[at.place] = Whole(ref, at.slice, i);
    if (at.copied) live[at.place] = live[at.place].clone();
    const bool update = segment.phase == SegmentPhase::kUpdate;
    const bool norm = update && at.tensor == g_.clip_norm();
    const bool gradient = update && port.use == PortUse::kConsume && !norm;
    if (gradient || norm || WatchesAll()) Watch(StepAt(in, i), at.tensor, live[at.place]);
    if (port.use != PortUse::kConsume) continue;
    if (gradient && options_.keep_gradients) {
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
      Watch(StepAt(in, i), at.tensor, value);
      const std::lock_guard lock(losses_mutex_);
      losses_[StepAt(in, i)] += value.item<double>() * loss_share_;
      continue;
    }
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

// Replicas that go their own way for a while count their own updates: a version says which it is.
int64_t TorchExecutor::UpdateNumber(const Instruction& in, int64_t i) const {
  if (!in.version.present()) return StepAt(in, i);
  const int64_t per_body = std::max(1, in.version.coefficient);
  return options_.first_step / StepsPerBody(p_) * per_body + in.version.value(i);
}

void TorchExecutor::Compute(const Instruction& in, int64_t i) {
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(memory_.get());
  const Segment& segment = p_.segment(in.target);
  const CompiledSegment& compiled = Compile(in.target);
  if (segment.ops.empty()) return Move(segment, compiled, in, i);
  std::vector<at::Tensor> live = TakeInputs(segment, compiled, in, i);
  if (!Frozen(segment, compiled, in, live)) RunOps(segment, compiled, in, i, live);
  KeepOutputs(segment, compiled, in, i, live);
}

bool TorchExecutor::Frozen(const Segment& segment, const CompiledSegment& compiled,
                           const Instruction& in, const std::vector<at::Tensor>& live) const {
  const bool frozen = watch_ != nullptr && watch_->first() && !WatchesAll();
  if (!frozen || segment.phase != SegmentPhase::kUpdate) return false;
  for (size_t k = 0; k < compiled.ports.size(); ++k) {
    const PortUse use = segment.ports[k].use;
    const bool made = use == PortUse::kWrite || (use == PortUse::kAdd && !in.accumulate);
    if (made && !live[compiled.ports[k].place].defined()) return false;
  }
  return true;
}

void TorchExecutor::RunOps(const Segment& segment, const CompiledSegment& compiled,
                           const Instruction& in, int64_t i, std::vector<at::Tensor>& live) {
  KernelContext context;
  context.batch = g_.batch();
  context.step = StepAt(in, i);
  context.update = UpdateNumber(in, i);
  context.learning_rate =
      options_.schedule.At(context.step, options_.total_steps, options_.learning_rate);
  context.training = options_.training;
  context.seed = options_.seed;
  context.first_sample = FirstSample(segment, in, i);
  context.dtype = heddle::ScalarOf(options_.dtype);
  context.rows = segment.rows.size();
  for (const CompiledOp& op : compiled.ops) {
    context.parts = op.parts;
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
      if (outputs[o].defined() && value.defined()) {  // a sum of several, or of microbatches
        value.add_(outputs[o]);
      } else if (outputs[o].defined()) {  // otherwise it was added
        value = std::move(outputs[o]);
      }
      if (WatchesAll()) Watch(context.step, op.op->outputs[o].tensor, value);
    }
    for (const size_t place : op.dead) live[place].reset();
  }
}

// What the segment reads of a tensor goes to where it writes it; the rest of that is zero.
void TorchExecutor::Move(const Segment& segment, const CompiledSegment& compiled,
                         const Instruction& in, int64_t i) {
  for (size_t to = 0; to < compiled.ports.size(); ++to) {
    const PortUse use = segment.ports[to].use;
    if (use == PortUse::kRead || use == PortUse::kConsume) continue;
    const CompiledPort& target = compiled.ports[to];
    const BufferRef ref = BufferOf(segment.ports[to], in);
    const bool adds = use == PortUse::kAccumulate || (use == PortUse::kAdd && in.accumulate);
    const at::Tensor sum = adds ? Whole(ref, target.slice, i) : Zeros(target.tensor, *target.slice);
    for (size_t from = 0; from < compiled.ports.size(); ++from) {
      const CompiledPort& source = compiled.ports[from];
      const Port& port = segment.ports[from];
      const bool reads = port.use == PortUse::kRead || port.use == PortUse::kConsume;
      if (!reads || source.tensor != target.tensor) continue;
      const at::Tensor value = source.role == Role::kInput
                                   ? LoadInput(source, segment, in, i)
                                   : Whole(BufferOf(port, in), source.slice, i);
      const Slice common = Intersection(*source.slice, *target.slice);
      if (ElementsOf(common) > 0) {
        const at::Tensor place = Narrow(sum, *target.slice, common);
        const at::Tensor part = Narrow(value, *source.slice, common);
        segment.scale == 1 ? place.add_(part)
                           : place.add_(part, segment.scale);  // integers have no scale
      }
      if (port.use == PortUse::kConsume) Free(BufferOf(port, in), i);
    }
    if (!adds) buffers_[KeyOf(ref, i)].part = {target.slice, sum};
  }
}

Payload TorchExecutor::Outgoing(const BufferRef& ref, int64_t i) {
  const MemoryScope scope(memory_.get());
  const at::Tensor value = Whole(ref, SliceFor(ref.tensor, ref.slice), i).contiguous();
  if (watch_ != nullptr) {
    const int64_t bodies = static_cast<int64_t>(first_row_.size());
    const int64_t body = ref.microbatch.present() ? ref.microbatch.value(i) / bodies : i;
    Watch(options_.first_step + body * StepsPerBody(p_),
          graph_tensor_[static_cast<size_t>(ref.tensor)], value);
  }
  return PayloadOf(value);
}

Payload TorchExecutor::Incoming(const BufferRef& ref, int64_t i) {
  const MemoryScope scope(memory_.get());
  const SlicePtr slice = SliceFor(ref.tensor, ref.slice);
  std::vector<int64_t> shape;
  for (const Range& range : *slice) shape.push_back(range.size());
  const TensorId id = graph_tensor_[static_cast<size_t>(ref.tensor)];
  const at::Tensor part = at::empty(shape, at::TensorOptions().dtype(ScalarOf(id)));
  Buffer& buffer = buffers_[KeyOf(ref, i)];
  if (buffer.part.tensor.defined()) {
    buffer.more.push_back({slice, part});
  } else {
    buffer.part = {slice, part};
  }
  return PayloadOf(part);
}

Payload TorchExecutor::InPlace(const BufferRef& ref, int64_t i) {
  const at::Tensor tensor = Whole(ref, SliceFor(ref.tensor, ref.slice), i);
  at::Tensor& all = buffers_.at(KeyOf(ref, i)).part.tensor;
  // Some kernels give a view of what they were given: that must not change.
  if (!tensor.is_same(all) || all.storage().use_count() == 1) return PayloadOf(tensor);
  all = all.clone();
  return PayloadOf(all);
}

// Memory for a buffer that arrives in blocks: in place where they lie in one piece.
std::vector<Payload> TorchExecutor::MakeBlocks(const BufferRef& ref, const Slice& whole,
                                               const std::vector<Slice>& blocks, int64_t i) {
  const TensorId id = graph_tensor_[static_cast<size_t>(ref.tensor)];
  const auto options = at::TensorOptions().dtype(ScalarOf(id));
  Buffer& buffer = buffers_[KeyOf(ref, i)];
  const at::Tensor all = at::empty(ExtentsOf(whole), options);
  bool in_place = true;
  for (const Slice& block : blocks) in_place &= Narrow(all, whole, block).is_contiguous();
  if (in_place || all.numel() == 0) buffer.part = {std::make_shared<const Slice>(whole), all};
  std::vector<Payload> payloads;
  for (const Slice& block : blocks) {
    const at::Tensor part =
        in_place ? Narrow(all, whole, block) : at::empty(ExtentsOf(block), options);
    payloads.push_back(PayloadOf(part));
    if (in_place || part.numel() == 0) continue;
    Part arrives{std::make_shared<const Slice>(block), part};
    if (buffer.part.tensor.defined()) {
      buffer.more.push_back(std::move(arrives));
    } else {
      buffer.part = std::move(arrives);
    }
  }
  return payloads;
}

ExchangeBlocks TorchExecutor::Exchange(const Instruction& in, int64_t i) {
  const MemoryScope scope(memory_.get());
  HEDDLE_CHECK(in.operand_count == 1 && in.output_count == 1);
  const BufferRef* operands =
      p_.devices[static_cast<size_t>(device_)].operands.data() + in.first_operand;
  const std::vector<int32_t>& members = p_.group(in.target).devices;
  const auto rank =
      static_cast<size_t>(std::find(members.begin(), members.end(), device_) - members.begin());
  const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
  HEDDLE_CHECK(shape.from.dim >= 0);
  const auto dim = static_cast<size_t>(shape.from.dim);
  const at::Tensor value = Whole(operands[0], SliceFor(operands[0].tensor, operands[0].slice), i);
  const Slice from = operands[0].slice >= 0 ? *SliceFor(operands[0].tensor, operands[0].slice)
                                            : *buffers_.at(KeyOf(operands[0], i)).part.slice;
  Slice to = *SliceFor(operands[1].tensor, operands[1].slice);
  const bool named = operands[1].slice >= 0;
  std::vector<Slice> in_blocks = {from}, out_blocks;
  if (in.kind == CollectiveKind::kAllGather) {
    out_blocks = Divide(to, shape.from, to[dim].begin);
  } else if (in.kind == CollectiveKind::kReduceScatter) {
    in_blocks = Divide(from, shape.from, from[dim].begin);
    to = named ? to : in_blocks[rank];
    out_blocks = {to};
  } else {
    const auto to_dim = static_cast<size_t>(shape.to.dim);
    // Along one axis shares overlap; along two, each member has a share of both.
    const bool same = dim == to_dim;
    const int64_t begin = from[to_dim].begin - (same ? BeginOf(shape.from, rank) : 0);
    in_blocks = Divide(from, shape.to, begin);
    if (!named) {
      to = from;
      to[dim] = {0, p_.tensor(operands[0].tensor).shape[dim]};
      to[to_dim] = in_blocks[rank][to_dim];
    }
    out_blocks = Divide(to, shape.from, to[dim].begin - (same ? BeginOf(shape.to, rank) : 0));
    for (Slice& block : in_blocks) block = Intersection(block, from);
    for (Slice& block : out_blocks) block = Intersection(block, to);
  }
  ExchangeBlocks blocks;
  for (const Slice& block : in_blocks) {
    blocks.in.push_back(PayloadOf(Narrow(value, from, block).contiguous()));
  }
  blocks.out = MakeBlocks(operands[1], to, out_blocks, i);
  return blocks;
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

void TorchExecutor::Watch(int64_t step, TensorId tensor, const at::Tensor& value) const {
  if (watch_ == nullptr || !watch_->Asks(step, tensor) || AllFinite(value)) return;
  watch_->Bad(step, tensor);
}

}  // namespace heddle
