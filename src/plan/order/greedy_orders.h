// Orders found by letting every idle stage take the first ready work that its memory allows
// (pipe_run.h), with the actual times.
//
// Each kind of work of a chunk goes by microbatch. A forward leaves room for the later chunks of
// its stage, so that the oldest microbatch can always go on and no limit leads to a deadlock.
#pragma once

#include <optional>
#include <vector>

#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

struct GreedyRule {
  bool forward_first = false;  // else backward first
  // Among forwards, or among backwards: the chunk nearest to the end of the microbatch's way first.
  bool nearest_end_first = true;
  // Weight parts wait until a stage has nothing else to do. If true, they wait only until a stage
  // has no backward to do.
  bool weight_before_forward = false;
  // A stage whose best ready work is no backward stays idle instead if a message can come before
  // this part of that work would be done.
  double patience = 0;
  // A forward starts only if the later chunks of its stage could keep a microbatch besides.
  bool room_for_later_chunks = false;
};

// REQUIRES: the shape has room for one microbatch on each stage.
std::vector<WorkOrder> GreedyOrders(const PipeShape& shape, const GreedyRule& rule);

// Nothing as soon as it is clear that they do not end within the limit; some that do not may come
// all the same.
std::optional<TimedOrders> GreedyOrdersWithin(const PipeShape& shape, const GreedyRule& rule,
                                              double limit);

// PE's event-driven form: the first ready block, backward before forward, the oldest microbatch
// first, within the limits of memory. Backward is not split.
std::vector<WorkOrder> EventDrivenOrders(const PipeShape& shape);
std::optional<TimedOrders> EventDrivenOrdersWithin(const PipeShape& shape, double limit);

}  // namespace heddle
