#include "program/lower/segment_maker.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

SegmentMaker::SegmentMaker(const Graph& graph, const PlanLayout& layout, Program& program)
    : g_(graph),
      layout_(layout),
      tables_(program),
      tensors_(graph.tensors().size(), -1),
      ops_(graph.ops().size()) {
  most_rows_ = *std::max_element(layout.microbatch_rows.begin(), layout.microbatch_rows.end());
}

int32_t SegmentMaker::TensorOf(TensorId id) {
  int32_t& known = tensors_[static_cast<size_t>(id.value)];
  if (known >= 0) return known;
  const Tensor& tensor = g_.tensor(id);
  std::vector<int64_t> shape = tensor.shape;
  if (tensor.per_sample) shape[0] = most_rows_;
  known = tables_.AddTensor({tensor.name, tensor.dtype, std::move(shape), tensor.role});
  return known;
}

SegmentOp SegmentMaker::OpOf(OpId id) {
  SegmentOp& known = ops_[static_cast<size_t>(id.value)];
  if (known.op < 0) known = tables_.AddOp(g_.op(id).name);
  return known;
}

int32_t SegmentMaker::RowsSlice(TensorId id, Range rows) {
  const Tensor& tensor = g_.tensor(id);
  if (!tensor.per_sample) return -1;
  Slice slice;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    slice.push_back(axis == 0 ? rows : Range{0, tensor.shape[axis]});
  }
  return tables_.AddSlice(TensorOf(id), slice);
}

int32_t SegmentMaker::FormOf(const Chunk& chunk, TensorId tensor) {
  const auto own = chunk.own_form.find(tensor);
  return own == chunk.own_form.end() ? -1 : tables_.AddForm(fmt::format("c{}", own->second));
}

BufferRef SegmentMaker::Plain(TensorId tensor) {
  BufferRef ref;
  ref.tensor = TensorOf(tensor);
  return ref;
}

int32_t SegmentMaker::SegmentFor(const SegmentPlace& place) {
  const auto [found, is_new] = segments_.try_emplace(place, -1);
  if (!is_new) return found->second;
  const Chunk& chunk = layout_.pipelines[place.pipeline].chunks[place.chunk];
  const SegmentTemplate& made = chunk.segments.segments[place.index];
  Segment segment;
  segment.name = NameFor(place);
  segment.phase = made.phase;
  segment.recompute = made.recompute;
  segment.first_layer = made.layers.first;
  segment.last_layer = made.layers.last;
  segment.rows = place.rows;
  const Scratch& scratch = ScratchFor(place);
  segment.scratch = scratch.again;
  segment.first_scratch = scratch.first;
  segment.ops.reserve(made.ops.size());
  for (const OpId op : made.ops) segment.ops.push_back(OpOf(op));
  segment.ports.reserve(made.ports.size());
  for (const TensorPort& tensor_port : made.ports) {
    Port port = PortOf(tensor_port.tensor, tensor_port.use);
    port.slice = RowsSlice(tensor_port.tensor, place.rows);
    port.form = FormOf(chunk, tensor_port.tensor);
    segment.ports.push_back(port);
  }
  found->second = tables_.AddSegment(std::move(segment));
  return found->second;
}

const SegmentMaker::Scratch& SegmentMaker::ScratchFor(const SegmentPlace& place) {
  const auto [found, is_new] =
      scratches_.try_emplace({place.pipeline, place.chunk, place.index, place.rows.size()});
  if (is_new) {
    const SegmentTemplate& made =
        layout_.pipelines[place.pipeline].chunks[place.chunk].segments.segments[place.index];
    const bool adds = std::any_of(made.ports.begin(), made.ports.end(),
                                  [](const TensorPort& p) { return p.use == PortUse::kAdd; });
    found->second.again = ScratchOf(g_, made, place.rows.size());
    if (adds) found->second.first = FirstScratchOf(g_, made, place.rows.size());
  }
  return found->second;
}

bool PerMicrobatch(const Tensor& tensor) {
  return tensor.role == Role::kActivation || tensor.role == Role::kGradient ||
         tensor.role == Role::kInput || tensor.role == Role::kLoss;
}

Port SegmentMaker::PortOf(TensorId tensor, PortUse use) {
  const Role role = g_.tensor(tensor).role;
  Port port;
  port.tensor = TensorOf(tensor);
  port.use = use;
  port.per_microbatch = PerMicrobatch(g_.tensor(tensor));
  port.versioned = versioned_ && role == Role::kParameter;
  port.per_replica = replicated_ && (role == Role::kParameter || role == Role::kState ||
                                     role == Role::kWeightGradient);
  return port;
}

void SegmentMaker::AddPort(Segment& segment, TensorId tensor, PortUse use) {
  segment.ports.push_back(PortOf(tensor, use));
}

// F2, B2.1 (second part of backward), F0c1 (second chunk), p1.F0 (second pipeline), and the rows
// where they are not all of a microbatch: F0_r0_3.
std::string SegmentMaker::NameFor(const SegmentPlace& place) const {
  static constexpr std::string_view kLetters = "FBIWUO";
  const PipelineLayout& pipeline = layout_.pipelines[place.pipeline];
  const Chunk& chunk = pipeline.chunks[place.chunk];
  const SegmentTemplate& made = chunk.segments.segments[place.index];
  std::string name = place.pipeline > 0 ? fmt::format("p{}.", place.pipeline) : "";
  name += made.recompute ? 'R' : kLetters[static_cast<size_t>(made.phase)];
  name += std::to_string(chunk.stage);
  if (pipeline.chunks_of[chunk.stage].size() > 1) name += fmt::format("c{}", chunk.index);
  size_t part = 0, parts = 0;
  for (size_t k = 0; k < chunk.segments.segments.size(); ++k) {
    const SegmentTemplate& other = chunk.segments.segments[k];
    if (other.phase != made.phase || other.recompute != made.recompute) continue;
    if (k == place.index) part = parts;
    ++parts;
  }
  if (parts > 1) name += fmt::format(".{}", part);
  if (place.rows != Range{0, most_rows_}) {
    name += fmt::format("_r{}_{}", place.rows.begin, place.rows.end);
  }
  return name;
}

}  // namespace heddle
