// The best order of a pipeline: all that apply are tried within the same limits of memory.
//
//   HEDDLE_ASSIGN(const OrderChoice choice, BestOrder(shape));
//   choice.best.name;             // "eager 1f1b"
//   choice.best.orders;           // one per stage
//   choice.tried;                 // the others, for an explanation
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

struct OrderOptions {
  OrderMeasure measure = OrderMeasure::kMakespan;
  // Pieces of work that the search around the best orders may execute, some 5 million a second; 0:
  // no search.
  int64_t search_items = 500'000;
  bool thorough = true;  // all rules and all limits of memory, some hundred orders; else a dozen
  bool bound = true;     // is it wanted? The search stops there
};

struct TriedOrder {
  std::string name;
  double time = 0;   // by the measure
  bool fits = true;  // else `time` is what it would take if memory were no matter
};

struct OrderChoice {
  struct Best {
    std::string name;
    std::vector<WorkOrder> orders;
    double time = 0;
  };
  Best best;
  double bound = 0;               // no order has a shorter time; 0: not asked for
  std::vector<TriedOrder> tried;  // shortest first, the best included; greedy ones if near it
};

// Infeasible if a stage has no room for one microbatch.
Result<OrderChoice> BestOrder(const PipeShape& shape, const OrderOptions& options = {});

}  // namespace heddle
