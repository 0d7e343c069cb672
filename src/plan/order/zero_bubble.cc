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
  Shortest(const PipeShape& shape, OrderMeasure measure, double limit)
      : shape_(shape), measure_(measure), time_(limit) {}

  // Nothing that ends later is of use. Of spans little is known before their end.
  double limit() const {
    return measure_ == OrderMeasure::kMakespan ? time_ : std::numeric_limits<double>::infinity();
  }

  void Show(std::optional<TimedOrders> found) {
    if (!found) return;
    const double time = TimeOf(*found);
    if (found_ ? time >= time_ : time > time_) return;
    time_ = time;
    found_ = std::move(found);
    found_->time = time;
  }

  std::optional<TimedOrders> Take() { return std::move(found_); }

 private:
  double TimeOf(const TimedOrders& found) const {
    if (measure_ == OrderMeasure::kMakespan) return found.time;
    return TimeOrders(shape_, found.orders).value().Of(measure_);
  }

  const PipeShape& shape_;
  OrderMeasure measure_;
  double time_;
  std::optional<TimedOrders> found_;
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

}  // namespace

std::optional<TimedOrders> BoundedMemoryOrdersWithin(const PipeShape& shape, double microbatches,
                                                     OrderMeasure measure, double limit) {
  CheckShape(shape);
  HEDDLE_CHECK(shape.HasRoom() && microbatches >= 1);
  PipeShape bounded = shape;
  bounded.limits = shape.KeptByStage();
  for (int s = 0; s < shape.stages; ++s) {
    bounded.limits[s] = std::min(bounded.limits[s] * microbatches, shape.limit(s));
  }
  Shortest shortest(bounded, measure, limit);
  for (const GreedyRule& rule : RulesToTry(bounded)) {
    shortest.Show(GreedyOrdersWithin(bounded, rule, shortest.limit()));
  }
  for (const BlockPauses& pauses : PausesToTry(bounded)) {
    shortest.Show(BlockOrders(bounded, pauses, shortest.limit()));
  }
  return shortest.Take();
}

std::vector<WorkOrder> BoundedMemoryOrders(const PipeShape& shape, double microbatches,
                                           OrderMeasure measure) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return BoundedMemoryOrdersWithin(shape, microbatches, measure, kAny)->orders;
}

std::vector<MemoryBudget> ZeroBubbleBudgets(const PipeShape& shape) {
  const int stages = shape.stages;
  if (!shape.split) return {};
  switch (shape.LayoutOf()) {
    case PipeShape::Layout::kStraight:
      return {{"zb-h1", stages}, {"zb-h2", 2 * stages}};
    case PipeShape::Layout::kVShaped:
      return {{"v-zb", stages}, {"v-half", stages / 2 + 1}, {"v-min", (stages + 6) / 3}};
    case PipeShape::Layout::kInterleaved:
    case PipeShape::Layout::kOther:
      break;
  }
  return {};
}

std::vector<WorkOrder> ZeroBubbleOrders(const PipeShape& shape, std::string_view name,
                                        OrderMeasure measure) {
  for (const MemoryBudget& budget : ZeroBubbleBudgets(shape)) {
    if (budget.name == name) return BoundedMemoryOrders(shape, budget.microbatches, measure);
  }
  HEDDLE_CHECK(false);
  return {};
}

}  // namespace heddle
