// The shortest makespan of a small pipeline under its limits of memory, by branch and bound: an
// oracle for the orders that are found otherwise. Stages and channels may do their work in any
// order and may wait.
//
// Branches after Giffler and Thompson (1960): of all work that could come next, that which could
// end first decides the machine, and every work of this machine that could start before that end is
// a branch. Bounds as in order_bound.h; states that are nowhere earlier than one seen before are
// left.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

struct ExactOrder {
  double makespan = 0;  // the shortest, or the shortest seen if `proven` is false
  bool proven = false;
  int64_t nodes = 0;
};

// Looks at no more than `most_nodes` states. `known` is the makespan of some order, or more.
// Infeasible if a stage has no room for one microbatch.
Result<ExactOrder> SolveOrder(const PipeShape& shape, double known, int64_t most_nodes = 200'000);

}  // namespace heddle
