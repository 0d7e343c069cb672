// ChunkSegments: the segments of one run of layers, with their ports, derived from the graph.
//
// For one microbatch a chunk runs its forward, perhaps the forward again (recomputation), then its
// backward, whole or in parts:
//
//   F   [R]   B…            or   F   [R]   I   W…
//
// Who writes a tensor, who reads it last and what crosses the chunk's ends decide the ports: what a
// later segment needs is written, the last reader consumes it, the rest stays inside. Rows do not
// matter here; Instantiate (lower.cc) adds them.
#pragma once

#include <vector>

#include "model/layer_chain.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

struct TensorPort {
  TensorId tensor;
  PortUse use;
};

struct SegmentTemplate {
  SegmentPhase phase = SegmentPhase::kForward;
  bool recompute = false;
  LayerRun layers;
  std::vector<OpId> ops;
  std::vector<TensorPort> ports;
  std::vector<TensorId> gradients_out;  // boundary gradients it writes: to be sent afterwards
};

struct ChunkSegments {
  std::vector<SegmentTemplate> segments;       // in order of execution
  std::vector<TensorId> freed_after_backward;  // passed on, but not read by any backward
  // Shared with a chunk on the same devices; with a split backward only the order of work tells
  // which of them uses it last, so no segment frees it.
  std::vector<TensorId> freed_by_order;

  // Indices of the segments of one kind of work.
  std::vector<size_t> Of(WorkKind kind) const;
};

struct ChunkOptions {
  LayerRun layers;
  bool recompute = false;
  bool split_backward = false;
  bool previous_is_local = false;  // the chunk before is on the same devices: no copy of its output
  bool next_is_local = false;      // likewise the chunk after
  // Backward is cut after each of these layers (descending), so that their gradients can go.
  std::vector<int32_t> backward_cuts = {};
};

ChunkSegments SegmentsOf(const Graph& graph, const LayerChain& chain, const ChunkOptions& options);

// Most memory the template needs inside beyond what is live before it, on `rows` samples, when its
// weight gradients are there already; and when they appear, one after the other, and stay.
Bytes ScratchOf(const Graph& graph, const SegmentTemplate& segment, int64_t rows);
Bytes FirstScratchOf(const Graph& graph, const SegmentTemplate& segment, int64_t rows);

}  // namespace heddle
