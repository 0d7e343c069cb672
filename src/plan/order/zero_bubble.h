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

#include <vector>

#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// The best order that keeps at most `microbatches` on each stage.
// REQUIRES: the shape has room for one microbatch on each stage, microbatches >= 1.
std::vector<WorkOrder> BoundedMemoryOrders(const PipeShape& shape, double microbatches,
                                           OrderMeasure measure);

// REQUIRES: split; straight for the first two, V-shaped for the others; room for one microbatch.
std::vector<WorkOrder> ZbH1Orders(const PipeShape& shape, OrderMeasure measure);
std::vector<WorkOrder> ZbH2Orders(const PipeShape& shape, OrderMeasure measure);
std::vector<WorkOrder> VZbOrders(const PipeShape& shape, OrderMeasure measure);
std::vector<WorkOrder> VHalfOrders(const PipeShape& shape, OrderMeasure measure);
std::vector<WorkOrder> VMinOrders(const PipeShape& shape, OrderMeasure measure);

}  // namespace heddle
