// Zero-bubble orders (Qi et al. 2023, 2024): backward in two parts, of which the weight part fills
// the gaps. The papers' orders differ in the memory they allow themselves, counted in microbatches
// that a stage keeps, of S stages:
//
//   straight   ZB-H1  S          as 1F1B; a third of its bubble
//              ZB-H2  2 S        no bubble
//   V-shaped   V-ZB   S          no bubble
//              V-Half S / 2 + 1  about half of 1F1B's bubble
//              V-Min  (S + 4)/3  no more bubble than 1F1B
//
// (times all alike, no messages). Here each is the best that several greedy rules and repeated
// blocks find for the actual times within that memory and the shape's own limits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// The best order that keeps at most `microbatches` on each stage.
// REQUIRES: the shape has room for one microbatch on each stage, microbatches >= 1.
std::vector<WorkOrder> BoundedMemoryOrders(const PipeShape& shape, double microbatches,
                                           OrderMeasure measure);

// The same, or nothing if it takes longer than the limit: rules that cannot keep it are given up
// on the way.
std::optional<TimedOrders> BoundedMemoryOrdersWithin(const PipeShape& shape, double microbatches,
                                                     OrderMeasure measure, double limit);

// The papers' orders for this shape, none if it may not split; no more than so many microbatches
// are kept.
struct MemoryBudget {
  std::string name;  // "zb-h1"
  int microbatches = 1;
};
std::vector<MemoryBudget> ZeroBubbleBudgets(const PipeShape& shape);

// One of them by its name. REQUIRES: it is one of this shape's; room for one microbatch.
std::vector<WorkOrder> ZeroBubbleOrders(const PipeShape& shape, std::string_view name,
                                        OrderMeasure measure);

}  // namespace heddle
