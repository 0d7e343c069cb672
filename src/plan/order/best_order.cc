#include "plan/order/best_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
    Add("event-driven", EventDrivenOrders(shape_));
    if (options_.thorough) {
      if (layout == Layout::kStraight && shape_.split) AddZeroBubble();
      if (layout == Layout::kVShaped && shape_.split) AddVShaped();
      Add("greedy", BoundedMemoryOrders(shape_, shape_.microbatches, options_.measure));
    } else {
      Add("greedy", GreedyOrders(shape_, {}));
      Add("greedy", GreedyOrders(shape_, {.weight_before_forward = shape_.split, .patience = 0.5}));
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

  // Different ones, and none that is far behind.
  std::vector<Candidate> Starts() const {
    std::vector<Candidate> starts;
    for (const Candidate& candidate : fitting_) {
      if (starts.size() == kStarts || candidate.time > 1.03 * fitting_[0].time) break;
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

  void AddZeroBubble() {
    Add("zb-h1", ZbH1Orders(shape_, options_.measure));
    Add("zb-h2", ZbH2Orders(shape_, options_.measure));
  }

  void AddVShaped() {
    Add("v-zb", VZbOrders(shape_, options_.measure));
    Add("v-half", VHalfOrders(shape_, options_.measure));
    Add("v-min", VMinOrders(shape_, options_.measure));
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
  const double bound = BoundOf(shape, options.measure);
  Candidates candidates(shape, options);
  candidates.AddAll();
  if (options.search_items > 0) candidates.Search(bound);
  return std::move(candidates).Choose(bound);
}

}  // namespace heddle
