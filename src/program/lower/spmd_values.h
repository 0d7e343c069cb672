// Which value each step of a stage's body reads and makes, in the stage's order of work. Internal
// to spmd_schedule.h.
#pragma once

#include <cstdint>
#include <vector>

#include "program/lower/spmd_schedule.h"

namespace heddle {

// A step of the program with its values, or what goes between stages.
struct StepNode {
  enum class Kind : uint8_t {
    kOp,
    kConvert,
    kMerge,
    kSend,     // `in` to another stage
    kReceive,  // `out` from another stage
    kTie,      // `in` is summed with the same weight's gradient on other stages, in place
    kLast,     // nothing but a last use of `in`
  };
  Kind kind = Kind::kOp;
  size_t step = 0;
  int32_t microbatch = 0;
  int32_t lane = -1;             // of a message
  bool again = false;            // a forward that is computed again
  std::vector<int32_t> in, out;  // values
  std::vector<bool> is_new;      // by output: made here, not added to or changed
};

struct ValueFlow {
  std::vector<StepNode> nodes;   // in the order of work
  std::vector<size_t> last_use;  // by value: a node
};

// Fills in the schedule's values, buffers and the layouts of what is sent.
ValueFlow FlowOf(const SpmdPlan& plan, const BodyShape& shape, const StageFlow& stage,
                 const Graph& graph, SpmdSchedule& schedule);

// Is it added to by several ops?
inline bool IsSum(const Graph& graph, TensorId id) {
  return graph.tensor(id).role == Role::kWeightGradient;
}

}  // namespace heddle
