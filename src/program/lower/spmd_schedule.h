// SpmdSchedule: the body of a stage (plan/stage_body.h) as pieces of work, one instruction each,
// the same on every device of its mesh but for which part of the tensors it has. An SPMD plan is
// the body of a pipeline with one stage. Internal to lowering; tests look at the values.
//
// Ops that follow each other become one piece until an exchange needs what they made. Exchanges
// whose input was there before go ahead of the piece that is being collected, so that they overlap
// with it; sums of weight gradients are posted in buckets as soon as they are complete.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "model/graph.h"
#include "program/plan/spmd_conversion.h"
#include "program/plan/stage_body.h"
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
  OpCode code = OpCode::kCompute;  // kCompute, kCollective, kSend, kRecv or kFree
  SegmentPhase phase = SegmentPhase::kOther;
  int32_t microbatch = 0;
  std::vector<size_t> steps;    // of the plan: ops to compute; none: the piece moves values
  std::vector<SpmdPort> ports;  // of a compute
  bool again = false;           // of a compute: a forward that runs again
  bool masks = false;           // of a move: some devices write zeros instead
  bool tied = false;            // of a collective: with other stages that hold the weight
  int32_t lane = -1;            // of a message, whose value is in `from` or `to`
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
  std::vector<std::pair<int32_t, Layout>> given;  // lanes of what is sent, in which layout
};

// A forward or backward of a run of layers, of one microbatch.
struct FlowItem {
  int32_t chunk = 0;  // of the stage
  bool forward = true;
  int32_t microbatch = 0;
  std::vector<size_t> taken;  // items before whose gradients have surely arrived when this is done
};

// A tensor on its way to or from another stage; messages of a lane differ in the microbatch alone.
struct FlowCrossing {
  TensorId tensor;
  Layout layout;  // in which it arrives
  int32_t lane = -1;
};

// What a stage does, and exchanges with others.
struct StageFlow {
  struct Ends {
    std::vector<FlowCrossing> in, out;
  };
  std::vector<FlowItem> items;
  std::vector<std::array<Ends, 2>> ends;  // by chunk; of backwards, of forwards
  std::vector<TensorId> tied;             // gradients that other stages have terms of
  size_t receive_ahead = 0;               // in items
  bool alone = true;                      // no other stages: one microbatch at a time
};

// Of a pipeline with one stage: every microbatch forward and then backward.
StageFlow AloneFlow(int32_t microbatches);

struct SpmdScheduleOptions {
  Bytes bucket{25 << 20};  // sums of gradients are posted together up to this size
  int free_behind = 4;     // what was exchanged is freed this many pieces later
  int32_t microbatches = 1;
};

// REQUIRES: CheckSpmdPlan(plan, graph) is ok; the graph is that of one microbatch.
SpmdSchedule ScheduleOf(const SpmdPlan& plan, const Graph& graph,
                        const SpmdScheduleOptions& options);
// Of a stage. REQUIRES: CheckBodies is ok.
SpmdSchedule ScheduleOf(const StageBody& body, const StageFlow& stage, const Graph& graph,
                        const SpmdScheduleOptions& options);

}  // namespace heddle
