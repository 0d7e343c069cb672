#include "plan/order/order_search.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "base/philox.h"
#include "plan/order/order_clock.h"

namespace heddle {
namespace {

// Late acceptance (Burke and Bykov 2017): a trial is kept if it is no worse than the orders of some
// trials ago. It crosses plateaus, of which makespans have many, and needs no temperatures.
class LateAcceptance {
 public:
  LateAcceptance(const PipeShape& shape, std::vector<WorkOrder> orders, const OrderSearch& search)
      : shape_(shape),
        search_(search),
        clock_(shape),
        random_(search.seed, "order search"),
        places_(shape.PlacesByStage()),
        current_(std::move(orders)),
        cost_(CostOf(current_)),
        best_(current_),
        best_cost_(cost_),
        history_(kHistory, (1 + search.slack) * cost_.weighted) {
    HEDDLE_CHECK(cost_.weighted < kForbidden);
    for (const WorkOrder& order : current_) items_ += static_cast<int64_t>(order.size());
  }

  std::vector<WorkOrder> Run() {
    // Some tries come to nothing at once; they are not free either.
    const int64_t tries = kTriesPerTrial * (search_.items / std::max<int64_t>(1, items_));
    for (int64_t t = 0; t < tries && executed_ < search_.items; ++t) {
      if (best_cost_.time <= search_.good_enough * (1 + 1e-9)) break;
      Try(static_cast<size_t>(t) % kHistory);
    }
    return std::move(best_);
  }

 private:
  static constexpr size_t kHistory = 200;
  static constexpr double kForbidden = std::numeric_limits<double>::infinity();
  // How much the mean over the stages counts, so that a trial that helps but one stage is seen.
  static constexpr double kTieWeight = 1e-2;
  static constexpr int64_t kTriesPerTrial = 8;

  struct Cost {
    double time = kForbidden;
    double weighted = kForbidden;
  };

  void Try(size_t at) {
    WorkOrder& order = current_[random_.Below(draws_++, current_.size())];
    if (order.size() < 2) return;
    const size_t from = random_.Below(draws_++, order.size());
    // Near places more often than far ones.
    const size_t reach = 1 + random_.Below(draws_++, order.size() - 1);
    const size_t step = 1 + random_.Below(draws_++, reach);
    const bool earlier = random_.Below(draws_++, 2) == 0;
    if (earlier ? from < step : from + step >= order.size()) return;
    const size_t to = earlier ? from - step : from + step;
    if (!Allowed(order, from, to)) return;
    Move(order, from, to);
    const Cost cost = MemoryFits(order) ? CostOf(current_) : Cost{};
    if (cost.weighted > history_[at] && cost.weighted > cost_.weighted) {
      Move(order, to, from);
    } else {
      cost_ = cost;
    }
    history_[at] = std::min(history_[at], cost_.weighted);
    if (cost_.weighted < best_cost_.weighted) {
      best_cost_ = cost_;
      best_ = current_;
    }
  }

  // Work of one kind and chunk stays in its order: microbatches are all alike. Parts of one
  // microbatch in one chunk do too.
  static bool Allowed(const WorkOrder& order, size_t from, size_t to) {
    const WorkItem& moved = order[from];
    for (size_t k = std::min(from, to); k <= std::max(from, to); ++k) {
      if (k == from || order[k].chunk != moved.chunk) continue;
      if (order[k].kind == moved.kind || order[k].microbatch == moved.microbatch) return false;
    }
    return true;
  }

  static void Move(WorkOrder& order, size_t from, size_t to) {
    const auto begin = order.begin();
    const auto at = [&](size_t k) { return begin + static_cast<ptrdiff_t>(k); };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  // Of the stage whose order was changed, which is cheaper to know than all times.
  bool MemoryFits(const WorkOrder& order) const {
    const auto stage = static_cast<int>(&order - current_.data());
    double memory = 0;
    for (const WorkItem& item : order) {
      const int place = places_[stage][item.chunk];
      if (item.kind == WorkKind::kForward) memory += shape_.chunks[place].kept;
      if (!FitsLimit(memory, shape_.limit(stage))) return false;
      memory -= shape_.Released(item.kind, place);
    }
    return true;
  }

  Cost CostOf(const std::vector<WorkOrder>& orders) {
    executed_ += items_;
    if (!clock_.Run(orders)) return {};
    double sum = 0, longest = 0;
    for (int s = 0; s < shape_.stages; ++s) {
      const bool spans = search_.measure == OrderMeasure::kSpan;
      const double time = clock_.last_end(s) - (spans ? clock_.first_start(s) : 0);
      sum += time;
      longest = std::max(longest, time);
    }
    return {longest, longest + kTieWeight * sum / shape_.stages};
  }

  const PipeShape& shape_;
  const OrderSearch& search_;
  OrderClock clock_;
  RandomStream random_;
  uint64_t draws_ = 0;
  std::vector<std::vector<int>> places_;
  int64_t items_ = 0;     // of one trial
  int64_t executed_ = 0;  // of all
  std::vector<WorkOrder> current_;
  Cost cost_;
  std::vector<WorkOrder> best_;
  Cost best_cost_;
  std::vector<double> history_;
};

}  // namespace

std::vector<WorkOrder> ImproveOrders(const PipeShape& shape, std::vector<WorkOrder> orders,
                                     const OrderSearch& search) {
  return LateAcceptance(shape, std::move(orders), search).Run();
}

}  // namespace heddle
