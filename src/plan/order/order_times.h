// OrderTimes: when everything happens if each stage does its work in the given order, as soon as it
// can (order_clock.h).
//
//   Result<OrderTimes> times = TimeOrders(shape, OneForwardOneBackward(4, 8));
//   times.value().Of(OrderMeasure::kMakespan);
#pragma once

#include <vector>

#include "base/result.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// What is to be short. Where an iteration ends with a barrier, the makespan; where each stage goes
// on to the next iteration by itself, as zero-bubble pipelines do, the longest time from a stage's
// first start to its last end.
enum class OrderMeasure { kMakespan, kSpan };

struct OrderTimes {
  std::vector<std::vector<double>> starts;  // by stage and place in its order
  std::vector<double> ends;                 // of the last work, by stage
  std::vector<double> spans;                // from the first start to the last end, by stage
  std::vector<double> peaks;                // of memory, by stage

  double OfStage(OrderMeasure measure, int stage) const {
    return (measure == OrderMeasure::kMakespan ? ends : spans)[stage];
  }
  double Of(OrderMeasure measure) const;  // the largest of all stages
};

// An error when the stages wait for each other for ever. Limits of memory are not looked at.
// REQUIRES: one order per stage, of chunks and microbatches that exist.
Result<OrderTimes> TimeOrders(const PipeShape& shape, const std::vector<WorkOrder>& orders);

struct TimedOrders {
  std::vector<WorkOrder> orders;
  double time = 0;  // the makespan, unless another measure was asked for
};

// Whether every peak is within its limit.
bool FitsMemory(const PipeShape& shape, const OrderTimes& times);

}  // namespace heddle
