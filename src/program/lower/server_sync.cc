#include "program/lower/server_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace heddle {

ServerSync::ServerSync(const Graph& graph, const PlanLayout& layout, SegmentMaker& maker,
                       int32_t first_tag)
    : g_(graph),
      layout_(layout),
      maker_(maker),
      first_tag_(first_tag),
      bucket_of_(graph.parameters().size(), -1) {
  std::map<int32_t, size_t> next;  // by group
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    const GradientBucket& bucket = layout.buckets[b];
    owners_.push_back(bucket.group[next[bucket.group_id]++ % bucket.group.size()]);
    for (const int32_t p : bucket.parameters) {
      bucket_of_[static_cast<size_t>(p)] = static_cast<int32_t>(b);
    }
  }
}

bool ServerSync::Updates(int32_t device, int32_t parameter) const {
  return owners_[static_cast<size_t>(bucket_of_[static_cast<size_t>(parameter)])] == device;
}

int32_t ServerSync::FormOf(size_t rank) {
  return maker_.tables().AddForm(fmt::format("r{}", rank));
}

void ServerSync::EmitMessage(int32_t device, OpCode code, int32_t peer, const BufferRef& buffer,
                             int32_t tag) {
  Instruction in;
  in.code = code;
  in.target = peer;
  in.tag = tag;
  maker_.tables().Emit(device, in, {buffer});
}

void ServerSync::EmitPush(int32_t device, size_t bucket) {
  const GradientBucket& shared = layout_.buckets[bucket];
  const int32_t owner = owners_[bucket];
  for (const int32_t p : shared.parameters) {
    BufferRef gradient = maker_.Plain(g_.parameters()[static_cast<size_t>(p)].gradient);
    if (device != owner) {
      EmitMessage(device, OpCode::kSend, owner, gradient, TagOf(p, false));
      continue;
    }
    for (size_t rank = 0; rank < shared.group.size(); ++rank) {
      if (shared.group[rank] == owner) continue;
      gradient.form = FormOf(rank);
      EmitMessage(device, OpCode::kRecv, shared.group[rank], gradient, TagOf(p, false));
    }
  }
}

// The gradients of all ranks, in their order, into the owner's.
int32_t ServerSync::SumOf(size_t bucket) {
  const GradientBucket& shared = layout_.buckets[bucket];
  Segment sum;
  sum.name = fmt::format("S{}", bucket);
  sum.phase = SegmentPhase::kOther;
  for (const int32_t p : shared.parameters) {
    const TensorId gradient = g_.parameters()[static_cast<size_t>(p)].gradient;
    for (size_t rank = 0; rank < shared.group.size(); ++rank) {
      const bool own = shared.group[rank] == owners_[bucket];
      maker_.AddPort(sum, gradient, own ? PortUse::kRead : PortUse::kConsume);
      if (!own) sum.ports.back().form = FormOf(rank);
    }
    maker_.AddPort(sum, gradient, PortUse::kChange);
    sum.scratch = std::max(sum.scratch, g_.tensor(gradient).bytes());
  }
  return maker_.tables().AddSegment(std::move(sum));
}

void ServerSync::EmitUpdate(size_t bucket, int32_t update) {
  const int32_t owner = owners_[bucket];
  Instruction in;
  in.target = SumOf(bucket);
  maker_.tables().Emit(owner, in, {});
  in.target = update;
  maker_.tables().Emit(owner, in, {});
  for (const int32_t p : layout_.buckets[bucket].parameters) {
    const BufferRef weight = maker_.Plain(g_.parameters()[static_cast<size_t>(p)].tensor);
    for (const int32_t peer : layout_.buckets[bucket].group) {
      if (peer != owner) EmitMessage(owner, OpCode::kSend, peer, weight, TagOf(p, true));
    }
  }
}

void ServerSync::EmitPull(int32_t device, size_t bucket) {
  for (const int32_t p : layout_.buckets[bucket].parameters) {
    const Parameter& parameter = g_.parameters()[static_cast<size_t>(p)];
    const BufferRef weight = maker_.Plain(parameter.tensor);
    maker_.tables().Emit(device, OpCode::kFree, {maker_.Plain(parameter.gradient)});
    maker_.tables().Emit(device, OpCode::kFree, {weight});
    EmitMessage(device, OpCode::kRecv, owners_[bucket], weight, TagOf(p, true));
  }
}

}  // namespace heddle
