#include "program/lower/chunk_segments.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/check.h"

namespace heddle {
namespace {

bool Flows(Role role) { return role == Role::kActivation || role == Role::kGradient; }

// Where a tensor is written and read among the chunk's segments.
struct Life {
  int written = -1;          // first segment that writes it
  int rewritten = -1;        // by recomputation
  std::vector<int> readers;  // ascending
};

class Deriver {
 public:
  Deriver(const Graph& graph, const LayerChain& chain, const ChunkOptions& options)
      : g_(graph), chain_(chain), o_(options) {}

  ChunkSegments Derive() {
    FindBoundaries();
    AddSegments(o_.recompute);
    if (o_.recompute && !RecomputeHelps()) AddSegments(false);
    for (size_t s = 0; s < chunk_.segments.size(); ++s) AddFixedPorts(s);
    for (const auto& [tensor, life] : lives_) AddFlowPorts(tensor, life);
    AddPassedOn();
    return std::move(chunk_);
  }

 private:
  std::vector<OpId> OpsOf(LayerRun run, std::vector<OpId> ChainLayer::*ops) const {
    std::vector<OpId> all;
    for (int l = run.first; l <= run.last; ++l) {
      const auto& part = chain_.layers[static_cast<size_t>(l)].*ops;
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  void Add(SegmentPhase phase, LayerRun run, std::vector<OpId> ChainLayer::*ops, bool again) {
    SegmentTemplate segment;
    segment.phase = phase;
    segment.recompute = again;
    segment.layers = run;
    segment.ops = OpsOf(run, ops);
    if (!segment.ops.empty()) chunk_.segments.push_back(std::move(segment));
  }

  void AddSegments(bool recompute) {
    chunk_.segments.clear();
    lives_.clear();
    AddForward(false);
    if (recompute) AddForward(true);
    first_backward_ = static_cast<int>(chunk_.segments.size());
    AddBackward();
    FindLives();
  }

  // Backward may read nothing but what crosses the chunk's ends, which is kept anyway.
  bool RecomputeHelps() const {
    return std::any_of(lives_.begin(), lives_.end(), [&](const auto& item) {
      const auto& [tensor, life] = item;
      return life.rewritten >= 0 && !out_.contains(tensor) && !life.readers.empty() &&
             life.readers.back() > life.rewritten;
    });
  }

  void AddForward(bool again) {
    Add(SegmentPhase::kForward, o_.layers, &ChainLayer::forward, again);
  }

  void AddBackward() {
    if (o_.split_backward) {
      Add(SegmentPhase::kBackwardInput, o_.layers, &ChainLayer::backward_input, false);
    }
    int last = o_.layers.last;
    for (const int32_t cut : o_.backward_cuts) {
      if (cut <= o_.layers.first || cut > last) continue;
      AddBackwardRun({cut, last});
      last = cut - 1;
    }
    AddBackwardRun({o_.layers.first, last});
  }

  void AddBackwardRun(LayerRun run) {
    if (o_.split_backward) {
      Add(SegmentPhase::kBackwardWeight, run, &ChainLayer::backward_weight, false);
    } else {
      Add(SegmentPhase::kBackward, run, &ChainLayer::backward, false);
    }
  }

  void FindLives() {
    for (size_t s = 0; s < chunk_.segments.size(); ++s) {
      const auto segment = static_cast<int>(s);
      for (const OpId id : chunk_.segments[s].ops) {
        for (const Operand& input : g_.op(id).inputs) {
          if (!Flows(g_.tensor(input.tensor).role)) continue;
          std::vector<int>& readers = lives_[input.tensor].readers;
          if (readers.empty() || readers.back() != segment) readers.push_back(segment);
        }
        for (const Operand& output : g_.op(id).outputs) {
          if (!Flows(g_.tensor(output.tensor).role)) continue;
          Life& life = lives_[output.tensor];
          if (life.written < 0) {
            life.written = segment;
          } else if (life.written != segment && chunk_.segments[s].recompute) {
            life.rewritten = segment;
          }
        }
      }
    }
  }

  void FindBoundaries() {
    const auto cut_at = [&](int layer) -> const Cut* {
      const bool inside = layer >= 0 && layer < static_cast<int>(chain_.cuts.size());
      return inside ? &chain_.cuts[static_cast<size_t>(layer)] : nullptr;
    };
    if (const Cut* before = cut_at(o_.layers.first - 1)) {
      in_.insert(before->forward.begin(), before->forward.end());
      gradients_out_.insert(before->backward.begin(), before->backward.end());
    }
    if (const Cut* after = cut_at(o_.layers.last)) {
      out_.insert(after->forward.begin(), after->forward.end());
      gradients_in_.insert(after->backward.begin(), after->backward.end());
    }
  }

  void AddPort(int segment, TensorId tensor, PortUse use) {
    chunk_.segments[static_cast<size_t>(segment)].ports.push_back({tensor, use});
  }

  // Weights, data, losses and weight gradients.
  void AddFixedPorts(size_t s) {
    std::set<TensorId> seen;
    SegmentTemplate& segment = chunk_.segments[s];
    for (const OpId id : segment.ops) {
      for (const Operand& input : g_.op(id).inputs) {
        const Role role = g_.tensor(input.tensor).role;
        if (Flows(role) || !seen.insert(input.tensor).second) continue;
        segment.ports.push_back({input.tensor, PortUse::kRead});
      }
      for (const Operand& output : g_.op(id).outputs) {
        const Role role = g_.tensor(output.tensor).role;
        if (Flows(role) || !seen.insert(output.tensor).second) continue;
        if (role == Role::kLoss && segment.recompute) continue;
        segment.ports.push_back(
            {output.tensor, role == Role::kWeightGradient ? PortUse::kAdd : PortUse::kWrite});
      }
    }
  }

  void AddFlowPorts(TensorId tensor, const Life& life) {
    const bool gradient = g_.tensor(tensor).role == Role::kGradient;
    const bool leaves = (gradient ? gradients_out_ : out_).contains(tensor);
    const bool enters = life.written < 0;
    // A neighbour on the same devices reads our buffer, or we read its: one of us frees it. For
    // activations that is the earlier chunk, whose backward comes last; likewise for gradients.
    const bool not_ours = enters && !gradient && o_.previous_is_local && in_.contains(tensor);
    const bool sent_gradient = gradient && leaves;

    int writer = life.written;
    if (life.rewritten >= 0 && !leaves) writer = life.rewritten;  // forward keeps only what leaves
    const bool kept = std::any_of(life.readers.begin(), life.readers.end(),
                                  [&](int reader) { return reader > writer; });
    if (!enters) {
      if (!kept && !leaves) return;  // stays inside the segment
      AddPort(writer, tensor, PortUse::kWrite);
      if (sent_gradient) {
        chunk_.segments[static_cast<size_t>(writer)].gradients_out.push_back(tensor);
      }
    }
    int last = -1;
    for (const int reader : life.readers) {
      const bool outside = enters || reader > writer;
      if (outside && !InsideRecompute(reader, life)) last = reader;
    }
    // What was sent on is complete once its gradient has come back: not freed before.
    if (!gradient && leaves) last = std::max(last, first_backward_);
    const bool keeps = not_ours || sent_gradient || Shared(tensor);
    if (last == static_cast<int>(chunk_.segments.size())) {  // there is no backward
      if (!keeps) chunk_.freed_after_backward.push_back(tensor);
      last = -1;
    }
    for (const int reader : life.readers) {
      const bool outside = enters || reader > writer;
      if (!outside || reader == last || InsideRecompute(reader, life)) continue;
      AddPort(reader, tensor, PortUse::kRead);
    }
    if (last < 0) return;
    AddPort(last, tensor, keeps ? PortUse::kRead : PortUse::kConsume);
  }

  // The recomputing forward reads what it computes itself, not the first forward's buffer.
  bool InsideRecompute(int reader, const Life& life) const {
    return life.rewritten >= 0 && reader == life.rewritten;
  }

  // With a split backward, at an end where the neighbour is on the same devices.
  bool Shared(TensorId tensor) const {
    if (!o_.split_backward) return false;
    return (o_.previous_is_local && (in_.contains(tensor) || gradients_out_.contains(tensor))) ||
           (o_.next_is_local && (out_.contains(tensor) || gradients_in_.contains(tensor)));
  }

  void AddPassedOn() {
    for (const auto* ends : {&in_, &out_, &gradients_in_, &gradients_out_}) {
      for (const TensorId tensor : *ends) {
        if (Shared(tensor)) chunk_.freed_by_order.push_back(tensor);
      }
    }
    if (o_.previous_is_local) return;  // the chunk before frees them
    for (const TensorId tensor : in_) {
      if (out_.contains(tensor) && !lives_.contains(tensor) && !Shared(tensor)) {
        chunk_.freed_after_backward.push_back(tensor);
      }
    }
  }

  const Graph& g_;
  const LayerChain& chain_;
  const ChunkOptions& o_;
  ChunkSegments chunk_;
  int first_backward_ = 0;
  std::map<TensorId, Life> lives_;
  std::set<TensorId> in_, out_, gradients_in_, gradients_out_;
};

}  // namespace

std::vector<size_t> ChunkSegments::Of(WorkKind kind) const {
  std::vector<size_t> found;
  for (size_t s = 0; s < segments.size(); ++s) {
    const SegmentTemplate& segment = segments[s];
    const bool forward = segment.phase == SegmentPhase::kForward;
    bool mine = false;
    switch (kind) {
      case WorkKind::kForward:
        mine = forward && !segment.recompute;
        break;
      case WorkKind::kBackward:
        mine = !forward || segment.recompute;  // all of it, in parts or not
        break;
      case WorkKind::kInput:
        mine = segment.phase == SegmentPhase::kBackwardInput || segment.recompute;
        break;
      case WorkKind::kWeight:
        mine = segment.phase == SegmentPhase::kBackwardWeight;
        break;
    }
    if (mine) found.push_back(s);
  }
  return found;
}

ChunkSegments SegmentsOf(const Graph& graph, const LayerChain& chain, const ChunkOptions& options) {
  return Deriver(graph, chain, options).Derive();
}

namespace {

// Walks the segment's ops and keeps account of what is live inside.
class ScratchWalk {
 public:
  ScratchWalk(const Graph& graph, const SegmentTemplate& segment, int64_t rows, bool first)
      : g_(graph), segment_(segment), rows_(rows), first_(first) {
    for (const TensorPort& port : segment.ports) ports_.emplace(port.tensor, port.use);
    for (size_t k = 0; k < segment.ops.size(); ++k) {
      const Op& op = graph.op(segment.ops[k]);
      for (const Operand& input : op.inputs) last_use_[input.tensor] = k;
      for (const Operand& output : op.outputs) last_use_.try_emplace(output.tensor, k);
    }
  }

  Bytes Peak() {
    for (size_t k = 0; k < segment_.ops.size(); ++k) Step(k, g_.op(segment_.ops[k]));
    return peak_;
  }

 private:
  Bytes Size(TensorId id) const {
    const Tensor& tensor = g_.tensor(id);
    return tensor.per_sample ? tensor.bytes() / g_.batch() * rows_ : tensor.bytes();
  }
  bool IsSum(TensorId id) const { return g_.tensor(id).role == Role::kWeightGradient; }

  // A weight gradient that is there is added to: in place, or from a temporary.
  Bytes Appearing(const Op& op, TensorId id, Bytes& temporary) {
    if (!IsSum(id)) return Size(id);
    const auto port = ports_.find(id);
    const bool appears = first_ && port != ports_.end() && port->second == PortUse::kAdd;
    if (appears && summed_.insert(id).second) return Size(id);
    if (!InfoOf(op.kind).adds) temporary += Size(id);
    return {};
  }

  void Step(size_t k, const Op& op) {
    for (const Operand& input : op.inputs) {
      const bool data = g_.tensor(input.tensor).role == Role::kInput;
      if (data && loaded_.insert(input.tensor).second) live_ += Size(input.tensor);
    }
    Bytes temporary = WorkspaceOf(g_, op, ExtentsForRows(op, rows_));
    for (const Operand& output : op.outputs) live_ += Appearing(op, output.tensor, temporary);
    const int8_t reused = InfoOf(op.kind).in_place;
    const bool in_place =
        reused >= 0 && GivenAway(op.inputs[static_cast<size_t>(reused)].tensor, k);
    if (in_place) temporary -= Size(op.outputs[0].tensor);
    peak_ = std::max(peak_, live_ + temporary);
    std::set<TensorId> done;
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) {
        if (last_use_[operand.tensor] == k) done.insert(operand.tensor);
      }
    }
    for (const TensorId tensor : done) {
      const auto port = ports_.find(tensor);
      const bool released = port == ports_.end() || port->second == PortUse::kConsume ||
                            g_.tensor(tensor).role == Role::kInput;
      if (released && !IsSum(tensor)) live_ -= Size(tensor);
    }
  }

  // Is this op the last to use the tensor, which nobody else has?
  bool GivenAway(TensorId id, size_t k) const {
    const auto port = ports_.find(id);
    return last_use_.at(id) == k && (port == ports_.end() || port->second == PortUse::kConsume) &&
           Flows(g_.tensor(id).role);
  }

  const Graph& g_;
  const SegmentTemplate& segment_;
  int64_t rows_;
  bool first_;
  std::unordered_map<TensorId, PortUse> ports_;
  std::unordered_map<TensorId, size_t> last_use_;
  std::set<TensorId> loaded_, summed_;
  Bytes live_, peak_;
};

}  // namespace

Bytes ScratchOf(const Graph& graph, const SegmentTemplate& segment, int64_t rows) {
  return ScratchWalk(graph, segment, rows, /*first=*/false).Peak();
}

Bytes FirstScratchOf(const Graph& graph, const SegmentTemplate& segment, int64_t rows) {
  return ScratchWalk(graph, segment, rows, /*first=*/true).Peak();
}

}  // namespace heddle
