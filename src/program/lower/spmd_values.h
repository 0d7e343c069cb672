// Which value each step of an SPMD plan reads and makes. Internal to spmd_schedule.h.
#pragma once

#include <cstdint>
#include <vector>

#include "program/lower/spmd_schedule.h"

namespace heddle {

// A step of the plan with its values.
struct StepNode {
  enum class Kind : uint8_t { kOp, kConvert, kMerge };
  Kind kind = Kind::kOp;
  size_t step = 0;
  int32_t microbatch = 0;
  std::vector<int32_t> in, out;  // values
  std::vector<bool> is_new;      // by output: made here, not added to or changed
};

struct ValueFlow {
  std::vector<StepNode> nodes;   // in the order of work
  std::vector<size_t> last_use;  // by value: a node
};

// Fills in the schedule's values and buffers.
ValueFlow FlowOf(const SpmdPlan& plan, const Graph& graph, int32_t microbatches,
                 SpmdSchedule& schedule);

// Is it added to by several ops?
inline bool IsSum(const Graph& graph, TensorId id) {
  return graph.tensor(id).role == Role::kWeightGradient;
}

}  // namespace heddle
