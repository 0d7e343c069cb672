// SegmentMaker: a Program's tensors and segments, each made at its first use. Internal to lowering.
//
//   SegmentMaker maker(graph, layout, program);
//   in.target = maker.SegmentFor({pipeline, chunk, template, rows});
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "program/lower/plan_layout.h"
#include "program/program_tables.h"

namespace heddle {

// A segment template on some rows of a microbatch.
struct SegmentPlace {
  size_t pipeline = 0;
  size_t chunk = 0;  // along the layers
  size_t index = 0;  // into the chunk's segments
  Range rows;

  auto operator<=>(const SegmentPlace&) const = default;
};

// Does each microbatch have its own? Statistics of a batch do, though they have no sample axis.
bool PerMicrobatch(const Tensor& tensor);

class SegmentMaker {
 public:
  // All three must outlive this.
  SegmentMaker(const Graph& graph, const PlanLayout& layout, Program& program);

  ProgramTables& tables() { return tables_; }

  // From now on segments read the version of a weight that their instruction names.
  void VersionWeights() { versioned_ = true; }
  bool versioned() const { return versioned_; }
  // From now on weights, their gradients and states are those of the instruction's replica.
  void ReplicateWeights() { replicated_ = true; }

  // The Program's tensor: the graph's, with the rows of the largest microbatch.
  int32_t TensorOf(TensorId id);
  SegmentOp OpOf(OpId id);
  // The part of a per-sample tensor that `rows` are; -1 for the whole of it.
  int32_t RowsSlice(TensorId id, Range rows);
  // The form a chunk keeps a tensor under; -1: none.
  int32_t FormOf(const Chunk& chunk, TensorId tensor);
  // A buffer that depends neither on the microbatch nor on anything else.
  BufferRef Plain(TensorId tensor);

  int32_t SegmentFor(const SegmentPlace& place);
  void AddPort(Segment& segment, TensorId tensor, PortUse use);

 private:
  struct Scratch {
    Bytes again, first;
  };

  std::string NameFor(const SegmentPlace& place) const;
  Port PortOf(TensorId tensor, PortUse use);
  const Scratch& ScratchFor(const SegmentPlace& place);

  const Graph& g_;
  const PlanLayout& layout_;
  ProgramTables tables_;
  int64_t most_rows_ = 0;
  bool versioned_ = false;
  bool replicated_ = false;
  std::vector<int32_t> tensors_;  // by the graph's id; -1: not made yet
  std::vector<SegmentOp> ops_;
  std::map<SegmentPlace, int32_t> segments_;
  std::map<std::tuple<size_t, size_t, size_t, int64_t>, Scratch> scratches_;  // by number of rows
};

}  // namespace heddle
