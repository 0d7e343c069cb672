// SpmdSchedule: an SPMD plan as pieces of work, one instruction each, the same on every device but
// for which part of the tensors it has. Internal to lowering; tests look at the values.
//
// Ops that follow each other become one piece until an exchange needs what they made. Exchanges
// whose input was there before go ahead of the piece that is being collected, so that they overlap
// with it; sums of weight gradients are posted in buckets as soon as they are complete.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/graph.h"
#include "program/plan/spmd_conversion.h"
#include "program/plan/spmd_plan.h"
#include "program/program.h"

namespace heddle {

// A tensor in one layout. Several follow each other in one buffer: the sum takes the place of the
// partial sums.
struct SpmdValue {
  TensorId tensor;
  Layout layout;
  int32_t buffer = -1;
  int32_t microbatch = 0;  // of what belongs to one
  bool complete = false;   // false: a sum that lacks some of its terms when it is made
};

struct SpmdBuffer {
  TensorId tensor;
  bool held = false;  // a parameter or state in its storage, or data: there all the time
  std::string form;   // tells it from others of the same tensor that live at the same time
};

struct SpmdPort {
  int32_t value;
  PortUse use;
};

struct SpmdPiece {
  OpCode code = OpCode::kCompute;  // kCompute, kCollective or kFree
  SegmentPhase phase = SegmentPhase::kOther;
  int32_t microbatch = 0;
  std::vector<size_t> steps;    // of the plan: ops to compute; none: the piece moves values
  std::vector<SpmdPort> ports;  // of a compute
  bool masks = false;           // of a move: some devices write zeros instead
  SpmdConversion conversion;    // of a collective or a move
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  std::vector<int32_t> from, to;  // values; one each but for a bucket of sums
  std::vector<int32_t> freed;     // values whose buffers end
};

struct SpmdSchedule {
  std::vector<SpmdValue> values;
  std::vector<SpmdBuffer> buffers;
  std::vector<SpmdPiece> pieces;
  std::vector<int32_t> held;  // values: parameters and states, in the graph's order
};

struct SpmdScheduleOptions {
  Bytes bucket{25 << 20};  // sums of gradients are posted together up to this size
  int free_behind = 4;     // what was exchanged is freed this many pieces later
  int32_t microbatches = 1;
};

// REQUIRES: CheckSpmdPlan(plan, graph) is ok; the graph is that of one microbatch.
SpmdSchedule ScheduleOf(const SpmdPlan& plan, const Graph& graph,
                        const SpmdScheduleOptions& options);

}  // namespace heddle
