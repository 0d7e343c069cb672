#include "plan/order/zero_bubble.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "plan/order/block_orders.h"
#include "plan/order/greedy_orders.h"

namespace heddle {
namespace {

// Keeps the shortest of what it is shown, and of equally short ones the first.
class Shortest {
 public:
  Shortest(const PipeShape& shape, OrderMeasure measure) : shape_(shape), measure_(measure) {}

  void Show(std::vector<WorkOrder> orders) {
    const Result<OrderTimes> times = TimeOrders(shape_, orders);
    HEDDLE_CHECK(times.ok() && FitsMemory(shape_, times.value()));
    if (times.value().Of(measure_) >= time_) return;
    time_ = times.value().Of(measure_);
    orders_ = std::move(orders);
  }

  std::vector<WorkOrder> Take() { return std::move(orders_); }

 private:
  const PipeShape& shape_;
  OrderMeasure measure_;
  double time_ = std::numeric_limits<double>::infinity();
  std::vector<WorkOrder> orders_;
};

// All rules that differ for this shape.
std::vector<GreedyRule> RulesToTry(const PipeShape& shape) {
  const bool one_chunk = shape.places() == shape.stages;
  std::vector<GreedyRule> rules;
  for (int bits = 0; bits < 16; ++bits) {
    GreedyRule rule;
    rule.forward_first = (bits & 1) != 0;
    rule.weight_before_forward = (bits & 2) != 0;
    rule.nearest_end_first = (bits & 4) == 0;
    rule.room_for_later_chunks = (bits & 8) != 0;
    if (rule.weight_before_forward && !shape.split) continue;
    if (one_chunk && (!rule.nearest_end_first || rule.room_for_later_chunks)) continue;
    for (const double patience : {0.0, 0.3, 0.5, 0.7, 1.0}) {
      rule.patience = patience;
      rules.push_back(rule);
    }
  }
  return rules;
}

// Pauses worth trying, in parts of a microbatch's work in one chunk (which has three).
std::vector<BlockPauses> PausesToTry(const PipeShape& shape) {
  const double part = static_cast<double>(shape.stages) / (3 * shape.places());
  std::vector<BlockPauses> tried;
  if (shape.LayoutOf() == PipeShape::Layout::kOther) return tried;
  if (shape.places() == shape.stages) {
    for (const double down : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
      for (const double up : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
        tried.push_back({part * down, 0, 0, part * up});
      }
    }
    return tried;
  }
  for (const int down : {0, 1, 2, 3}) {
    for (const int up : {0, 1, 2, 3}) {
      for (const int other : {0, 1}) {
        tried.push_back({part * down, part * other, part * up, part * other});
      }
    }
  }
  return tried;
}

std::vector<WorkOrder> Named(const PipeShape& shape, PipeShape::Layout layout, double microbatches,
                             OrderMeasure measure) {
  HEDDLE_CHECK(shape.split && shape.LayoutOf() == layout);
  return BoundedMemoryOrders(shape, microbatches, measure);
}

}  // namespace

std::vector<WorkOrder> BoundedMemoryOrders(const PipeShape& shape, double microbatches,
                                           OrderMeasure measure) {
  CheckShape(shape);
  HEDDLE_CHECK(shape.HasRoom() && microbatches >= 1);
  PipeShape bounded = shape;
  bounded.limits = shape.KeptByStage();
  for (int s = 0; s < shape.stages; ++s) {
    bounded.limits[s] = std::min(bounded.limits[s] * microbatches, shape.limit(s));
  }
  Shortest shortest(bounded, measure);
  for (const GreedyRule& rule : RulesToTry(bounded)) shortest.Show(GreedyOrders(bounded, rule));
  for (const BlockPauses& pauses : PausesToTry(bounded)) {
    if (auto orders = BlockOrders(bounded, pauses)) shortest.Show(std::move(*orders));
  }
  return shortest.Take();
}

std::vector<WorkOrder> ZbH1Orders(const PipeShape& shape, OrderMeasure measure) {
  return Named(shape, PipeShape::Layout::kStraight, shape.stages, measure);
}

std::vector<WorkOrder> ZbH2Orders(const PipeShape& shape, OrderMeasure measure) {
  return Named(shape, PipeShape::Layout::kStraight, 2 * shape.stages, measure);
}

std::vector<WorkOrder> VZbOrders(const PipeShape& shape, OrderMeasure measure) {
  return Named(shape, PipeShape::Layout::kVShaped, shape.stages, measure);
}

std::vector<WorkOrder> VHalfOrders(const PipeShape& shape, OrderMeasure measure) {
  return Named(shape, PipeShape::Layout::kVShaped, shape.stages / 2 + 1, measure);
}

std::vector<WorkOrder> VMinOrders(const PipeShape& shape, OrderMeasure measure) {
  return Named(shape, PipeShape::Layout::kVShaped, (shape.stages + 6) / 3, measure);
}

}  // namespace heddle
