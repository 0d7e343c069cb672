#include "plan/order/best_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "plan/order/greedy_orders.h"
#include "plan/order/order_bound.h"
#include "plan/order/order_search.h"
#include "plan/order/orders.h"
#include "plan/order/zero_bubble.h"

namespace heddle {
namespace {

using Candidate = OrderChoice::Best;

// What an order wants in flight, within the room of the stages. A stage that has less in flight
// than it wants leaves one less to the next, as in 1F1B, or the two would take turns.
std::vector<int> WithinRoom(const PipeShape& shape, std::vector<int> in_flight) {
  for (int s = 0; s < shape.stages; ++s) {
    const double kept = shape.chunks[s].kept;
    double room = kept > 0 ? std::floor(shape.limit(s) / kept * (1 + 1e-9)) : in_flight[s];
    if (s > 0) room = std::min(room, in_flight[s - 1] - 1.0);
    if (room < in_flight[s]) in_flight[s] = std::max(1, static_cast<int>(room));
  }
  return in_flight;
}

class Candidates {
 public:
  Candidates(const PipeShape& shape, const OrderOptions& options)
      : shape_(shape), options_(options) {}

  void AddAll() {
    using Layout = PipeShape::Layout;
    const Layout layout = shape_.LayoutOf();
    if (layout == Layout::kStraight) AddStraight();
    const bool whole_rounds = shape_.microbatches % shape_.stages == 0;
    if (layout == Layout::kInterleaved && whole_rounds) {
      Add("interleaved",
          InterleavedOrders(shape_.stages, shape_.places() / shape_.stages, shape_.microbatches));
    }
    AddFitting("event-driven", EventDrivenOrdersWithin(shape_, MakespanLimit()));
    if (options_.thorough) {
      AddBoundedMemory();
    } else {
      AddFitting("greedy", GreedyOrdersWithin(shape_, {}, MakespanLimit()));
      AddFitting("greedy", GreedyOrdersWithin(
                               shape_, {.weight_before_forward = shape_.split, .patience = 0.5},
                               MakespanLimit()));
    }
    std::stable_sort(fitting_.begin(), fitting_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  }

  // Searches around the best few, each time with its share of the budget.
  void Search(double bound) {
    const std::vector<Candidate> starts = Starts();
    for (int k = 0; k < kSearches && !Reached(bound); ++k) {
      const Candidate& from = starts[static_cast<size_t>(k / 2) % starts.size()];
      OrderSearch search{options_.measure, options_.search_items / kSearches, bound};
      search.seed = static_cast<uint64_t>(k) + 1;
      search.slack = k % 2 == 0 ? 0.01 : 0;
      std::vector<WorkOrder> found = ImproveOrders(shape_, from.orders, search);
      if (found != from.orders) Add(from.name + ", searched", std::move(found));
    }
  }

  OrderChoice Choose(double bound) && {
    const auto shorter = [](const auto& a, const auto& b) { return a.time < b.time; };
    std::stable_sort(tried_.begin(), tried_.end(), shorter);
    OrderChoice choice;
    choice.best = std::move(*std::min_element(fitting_.begin(), fitting_.end(), shorter));
    choice.bound = bound;
    choice.tried = std::move(tried_);
    return choice;
  }

 private:
  static constexpr int kSearches = 6;
  static constexpr size_t kStarts = 3;
  static constexpr double kNear = 1.03;  // times the best

  // Different ones, and none that is far behind.
  std::vector<Candidate> Starts() const {
    std::vector<Candidate> starts;
    for (const Candidate& candidate : fitting_) {
      if (starts.size() == kStarts || candidate.time > kNear * fitting_[0].time) break;
      const bool seen = std::any_of(starts.begin(), starts.end(), [&](const Candidate& start) {
        return start.orders == candidate.orders;
      });
      if (!seen) starts.push_back(candidate);
    }
    return starts;
  }

  void AddStraight() {
    const int stages = shape_.stages, microbatches = shape_.microbatches;
    const auto warm_up = [&](const std::vector<int>& in_flight) {
      return WarmUpOrders(WithinRoom(shape_, in_flight), microbatches);
    };
    Add("1f1b", OneForwardOneBackward(stages, microbatches));
    Add("eager 1f1b", warm_up(EagerInFlight(stages)));
    Add("list", warm_up(ListInFlight(stages)));
    Add("gpipe", GpipeOrders(stages, microbatches));
  }

  // Those with more memory first: what they reach spares the others work.
  void AddBoundedMemory() {
    std::vector<MemoryBudget> budgets = ZeroBubbleBudgets(shape_);
    budgets.push_back({"greedy", shape_.microbatches});
    std::vector<std::optional<TimedOrders>> found(budgets.size());
    double limit = Limit();
    for (size_t k = budgets.size(); k-- > 0;) {
      found[k] =
          BoundedMemoryOrdersWithin(shape_, budgets[k].microbatches, options_.measure, limit);
      if (found[k]) limit = std::min(limit, kNear * found[k]->time);
    }
    for (size_t k = 0; k < budgets.size(); ++k) {
      if (found[k]) Keep(budgets[k].name, *std::move(found[k]));
    }
  }

  // What takes longer is neither the best nor a start for the search.
  double Limit() const {
    double limit = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : fitting_) limit = std::min(limit, kNear * candidate.time);
    return limit;
  }
  double MakespanLimit() const {
    return options_.measure == OrderMeasure::kMakespan ? Limit()
                                                       : std::numeric_limits<double>::infinity();
  }

  // Orders with their makespan, made within the limits of memory.
  void AddFitting(const std::string& name, std::optional<TimedOrders> found) {
    if (!found) return;
    if (options_.measure != OrderMeasure::kMakespan) {
      found->time = TimeOrders(shape_, found->orders).value().Of(options_.measure);
    }
    Keep(name, *std::move(found));
  }
  void Keep(const std::string& name, TimedOrders found) {
    tried_.push_back({name, found.time, true});
    fitting_.push_back({name, std::move(found.orders), found.time});
  }

  void Add(const std::string& name, std::vector<WorkOrder> orders) {
    const Result<OrderTimes> times = TimeOrders(shape_, orders);
    HEDDLE_CHECK(times.ok());
    const double time = times.value().Of(options_.measure);
    const bool fits = FitsMemory(shape_, times.value());
    tried_.push_back({name, time, fits});
    if (fits) fitting_.push_back({name, std::move(orders), time});
  }

  bool Reached(double bound) const {
    return std::any_of(fitting_.begin(), fitting_.end(), [&](const Candidate& candidate) {
      return candidate.time <= bound * (1 + 1e-9);
    });
  }

  const PipeShape& shape_;
  const OrderOptions& options_;
  std::vector<TriedOrder> tried_;
  std::vector<Candidate> fitting_;
};

// Of the longest span, the work of a stage is all that is known.
double BoundOf(const PipeShape& shape, OrderMeasure measure) {
  if (measure == OrderMeasure::kMakespan) return OrderBound(shape);
  std::vector<double> work(shape.stages, 0);
  for (const PipeShape::Chunk& chunk : shape.chunks) {
    work[chunk.stage] += shape.microbatches * (chunk.forward + chunk.input + chunk.weight);
  }
  return *std::max_element(work.begin(), work.end());
}

}  // namespace

Result<OrderChoice> BestOrder(const PipeShape& shape, const OrderOptions& options) {
  CheckShape(shape);
  const std::vector<double> kept = shape.KeptByStage();
  for (int s = 0; s < shape.stages; ++s) {
    if (FitsLimit(kept[s], shape.limit(s))) continue;
    return Infeasible(
        fmt::format("stage {}", s),
        fmt::format("keeps {:g} of one microbatch and has room for {:g}", kept[s], shape.limit(s)),
        "recompute, or make microbatches or the stage smaller");
  }
  const double bound = options.bound ? BoundOf(shape, options.measure) : 0;
  Candidates candidates(shape, options);
  candidates.AddAll();
  if (options.search_items > 0) candidates.Search(bound);
  return std::move(candidates).Choose(bound);
}

}  // namespace heddle
