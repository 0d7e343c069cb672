// Boundary: what travels between two stages on different meshes. Internal to lowering.
//
// The giver has a tensor in one layout, the taker wants it in another; both are partitions of it,
// with some parts on several devices. Every part that a taking device lacks travels once, from the
// nearest device that has it: one of its own node before others, and of those as near as each other
// the one that gives least so far.
//
//   giver 1 x 2, R.S1          taker 1 x 3, R.S1
//   d0 [0:6]   d1 [6:12]       d2 [0:4]   d3 [4:8]   d4 [8:12]
//   d0 -> d2 [0:4]   d0 -> d3 [4:6]   d1 -> d3 [6:8]   d1 -> d4 [8:12]
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/lower/spmd_schedule.h"
#include "program/plan/plan.h"
#include "program/plan/work_times.h"

namespace heddle {

// Devices of a stage's mesh, row by row, and what each has of a tensor.
struct BoundarySide {
  std::vector<int32_t> devices;    // numbers in the Program
  std::vector<std::string> nodes;  // by device: where it is
  std::vector<Slice> parts;        // by device
};

struct Parcel {
  int32_t from = -1, to = -1;  // devices
  Slice part;

  bool operator==(const Parcel&) const = default;
};

// In the order of the takers. REQUIRES: the giver's parts cover the tensor.
std::vector<Parcel> ParcelsBetween(const BoundarySide& giver, const BoundarySide& taker);

// A tensor that goes from one stage to another, for every microbatch.
struct StageLane {
  TensorId tensor;
  size_t giver = 0, taker = 0;  // stages
  Layout wanted;                // on the taker's mesh
};

// All exchange between the stages of a pipeline, numbered.
class StageLanes {
 public:
  // REQUIRES: every stage has a body; CheckBodies is ok. Both must outlive this.
  StageLanes(const PipelinePlan& pipeline, const Graph& graph);

  const std::vector<StageLane>& lanes() const { return lanes_; }
  // Stages that hold the parameter of a gradient, ascending: more than one where it is tied.
  const std::vector<size_t>& HoldersOf(TensorId gradient) const { return holders_.at(gradient); }

  // What a stage does, in its order. A gradient is given up `free_behind` items after it was sent,
  // when the taker has surely asked for it.
  StageFlow FlowOf(size_t stage, const WorkTimes& times, int receive_ahead, int free_behind) const;

 private:
  void AddLanes(size_t giver_place, size_t taker_place);
  const ChunkSteps& StepsAt(size_t place) const;

  const PipelinePlan& pipeline_;
  const Graph& g_;
  std::vector<std::vector<size_t>> places_;          // by stage and chunk: along the layers
  std::vector<std::pair<size_t, size_t>> chunk_at_;  // by place: stage and chunk
  std::vector<StageLane> lanes_;
  std::array<std::vector<std::vector<StageFlow::Ends>>, 2> ends_;  // by direction, stage, chunk
  std::map<TensorId, std::vector<size_t>> holders_;                // by gradient
};

}  // namespace heddle
