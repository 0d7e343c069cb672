// Gradients through parameter servers instead of all-reduces. Internal to lowering.
//
// Every bucket has an owner among the devices that hold it, in turn, so that no device serves all.
// The others push their gradients to it while backward goes on; it adds them in the order of ranks,
// as an all-reduce does, updates the weights and keeps the optimizer's state alone; the others drop
// their weights and pull the new ones, which the next forward waits for.
//
//   owner    B …  recv g.r1  recv g.r2   sum g   update   send w   send w
//   others   B …  send g                 free g  free w   recv w
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"
#include "program/lower/plan_layout.h"
#include "program/lower/segment_maker.h"

namespace heddle {

class ServerSync {
 public:
  // Messages have tags from `first_tag` on. All but the number must outlive this.
  ServerSync(const Graph& graph, const PlanLayout& layout, SegmentMaker& maker, int32_t first_tag);

  bool IsShared(size_t bucket) const { return layout_.buckets[bucket].group.size() > 1; }
  int32_t OwnerOf(size_t bucket) const { return owners_[bucket]; }
  // Whether the device keeps the optimizer's state of the parameter.
  bool Updates(int32_t device, int32_t parameter) const;

  // The bucket's gradients are complete on the device.
  void EmitPush(int32_t device, size_t bucket);
  // The owner's sum, its update by the segment, and the new weights on their way.
  void EmitUpdate(size_t bucket, int32_t update);
  // The others' new weights.
  void EmitPull(int32_t device, size_t bucket);

 private:
  int32_t FormOf(size_t rank);
  int32_t SumOf(size_t bucket);
  void EmitMessage(int32_t device, OpCode code, int32_t peer, const BufferRef& buffer, int32_t tag);
  int32_t TagOf(int32_t parameter, bool weights) const {
    return first_tag_ + 2 * parameter + (weights ? 1 : 0);
  }

  const Graph& g_;
  const PlanLayout& layout_;
  SegmentMaker& maker_;
  int32_t first_tag_;
  std::vector<int32_t> owners_;     // by bucket
  std::vector<int32_t> bucket_of_;  // by parameter
};

}  // namespace heddle
