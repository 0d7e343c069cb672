// A search in the neighbourhood of given orders: one piece of work at a time moves to another place
// in its stage's list.
//
//   orders = ImproveOrders(shape, orders, {.measure = OrderMeasure::kMakespan, .items =
//   1'000'000});
#pragma once

#include <cstdint>
#include <vector>

#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

struct OrderSearch {
  OrderMeasure measure = OrderMeasure::kMakespan;
  int64_t items = 1'000'000;  // pieces of work that all trials together may execute
  double good_enough = 0;     // where to stop: a bound, or what another order reached
  uint64_t seed = 1;
  // How much worse than the given orders a trial may be. Little orders gain from going through
  // worse ones; in large ones there is no time to come back.
  double slack = 0;
};

// Orders at least as good, within the limits of memory. The same for the same arguments.
// REQUIRES: the orders run to their end and fit.
std::vector<WorkOrder> ImproveOrders(const PipeShape& shape, std::vector<WorkOrder> orders,
                                     const OrderSearch& search);

}  // namespace heddle
