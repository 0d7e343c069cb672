#include "plan/order/greedy_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "pipe_shapes.h"
#include "plan/order/block_orders.h"
#include "plan/order/order_times.h"
#include "plan/order/zero_bubble.h"

namespace heddle {
namespace {

// Every microbatch goes once through every chunk of every stage, as `kinds`.
void ExpectComplete(const PipeShape& shape, const std::vector<WorkOrder>& orders) {
  const auto places = shape.PlacesByStage();
  ASSERT_EQ(orders.size(), places.size());
  for (size_t s = 0; s < orders.size(); ++s) {
    std::map<std::pair<int, int>, std::string> seen;
    for (const WorkItem& item : orders[s]) {
      seen[{item.chunk, item.microbatch}] += static_cast<char>(item.kind);
    }
    EXPECT_EQ(seen.size(), places[s].size() * static_cast<size_t>(shape.microbatches));
    for (const auto& entry : seen) EXPECT_EQ(entry.second, shape.split ? "FIW" : "FB");
  }
}

GreedyRule SomeRule(uint64_t seed) {
  return {seed % 2 == 0, seed % 3 == 0, seed % 5 == 0, static_cast<double>(seed % 7) / 6,
          seed % 11 < 5};
}

TEST(GreedyOrdersTest, CompleteAndWithinMemoryByAnyRule) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PipeShape shape = RandomShape(seed, 6, 9);
    const auto orders = GreedyOrders(shape, SomeRule(seed));
    ExpectComplete(shape, orders);
    const auto times = TimeOrders(shape, orders);
    ASSERT_TRUE(times.ok()) << seed;
    EXPECT_TRUE(FitsMemory(shape, times.value())) << seed;
  }
}

constexpr double kAny = std::numeric_limits<double>::infinity();

TEST(GreedyOrdersTest, TheirTimeIsThatOfTheLists) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PipeShape shape = RandomShape(seed, 6, 9);
    const auto found = GreedyOrdersWithin(shape, SomeRule(seed), kAny);
    ASSERT_TRUE(found) << seed;
    const OrderTimes times = TimeOrders(shape, found->orders).value();
    EXPECT_EQ(times.Of(OrderMeasure::kMakespan), found->time) << seed;
  }
}

TEST(GreedyOrdersTest, GivesUpOnlyWhatIsTooLate) {
  int given_up = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PipeShape shape = RandomShape(seed, 6, 9);
    const GreedyRule rule = SomeRule(seed);
    const TimedOrders all = *GreedyOrdersWithin(shape, rule, kAny);
    const auto in_time = GreedyOrdersWithin(shape, rule, all.time);
    ASSERT_TRUE(in_time) << seed;
    EXPECT_EQ(in_time->orders, all.orders) << seed;
    given_up += GreedyOrdersWithin(shape, rule, 0.9 * all.time) ? 0 : 1;
    const double part = static_cast<double>(seed % 4) / 6;
    const auto blocks = BlockOrders(shape, {part, 0, 0, part});
    if (!blocks) continue;
    const auto again = BlockOrders(shape, {part, 0, 0, part}, blocks->time);
    ASSERT_TRUE(again) << seed;
    EXPECT_EQ(again->orders, blocks->orders) << seed;
    given_up += BlockOrders(shape, {part, 0, 0, part}, 0.9 * blocks->time) ? 0 : 1;
  }
  EXPECT_GT(given_up, 200);
}

TEST(GreedyOrdersTest, TheShortestIsFoundWithinItsTimeAndNotWithinLess) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PipeShape shape = RandomShape(seed, 5, 8);
    const auto within = [&](double limit) {
      return BoundedMemoryOrdersWithin(shape, 2, OrderMeasure::kMakespan, limit);
    };
    const auto all = within(kAny);
    ASSERT_TRUE(all) << seed;
    for (const double patience : {0.0, 0.3, 0.5, 0.7, 1.0}) {
      PipeShape bounded = shape;
      bounded.limits = shape.KeptByStage();
      for (int s = 0; s < shape.stages; ++s) {
        bounded.limits[s] = std::min(2 * bounded.limits[s], shape.limit(s));
      }
      const auto one = GreedyOrders(bounded, {.patience = patience});
      EXPECT_LE(all->time, TimeOrders(shape, one).value().Of(OrderMeasure::kMakespan)) << seed;
    }
    EXPECT_EQ(within(all->time)->orders, all->orders) << seed;
    EXPECT_FALSE(within(all->time * (1 - 1e-6))) << seed;
  }
}

TEST(GreedyOrdersTest, BlocksTooIfTheyEnd) {
  int ended = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PipeShape shape = RandomShape(seed, 6, 9);
    const double part = static_cast<double>(seed % 4) / 6;
    const auto orders = BlockOrders(shape, {part, 0, 0, part});
    if (!orders) continue;
    ++ended;
    ExpectComplete(shape, orders->orders);
    const OrderTimes times = TimeOrders(shape, orders->orders).value();
    EXPECT_TRUE(FitsMemory(shape, times)) << seed;
    EXPECT_EQ(times.Of(OrderMeasure::kMakespan), orders->time) << seed;
  }
  EXPECT_GT(ended, 100);
}

// What a stage could have started at `now`, of an event-driven run: work whose inputs were there
// and for which memory was left. Times of messages are taken as free, for then inputs are there
// when the work before them ends.
class ReadyWork {
 public:
  ReadyWork(const PipeShape& shape, const std::vector<WorkOrder>& orders, const OrderTimes& times)
      : shape_(shape) {
    const auto places = shape.PlacesByStage();
    for (int s = 0; s < shape.stages; ++s) {
      for (size_t k = 0; k < orders[s].size(); ++k) {
        const WorkItem& item = orders[s][k];
        const int place = places[s][item.chunk];
        start_[{item.kind, place, item.microbatch}] = times.starts[s][k];
      }
    }
  }

  bool Any(int stage, double now) const {
    return std::any_of(start_.begin(), start_.end(), [&](const auto& entry) {
      const auto [kind, place, microbatch] = entry.first;
      if (shape_.chunks[place].stage != stage || entry.second <= now) return false;
      if (kind == WorkKind::kForward) {
        return (place == 0 || Ended(WorkKind::kForward, place - 1, microbatch, now)) &&
               FitsLimit(Kept(stage, now) + shape_.chunks[place].kept, shape_.limit(stage));
      }
      return Ended(WorkKind::kForward, place, microbatch, now) &&
             (place + 1 == shape_.places() ||
              Ended(WorkKind::kBackward, place + 1, microbatch, now));
    });
  }

 private:
  bool Ended(WorkKind kind, int place, int microbatch, double now) const {
    return start_.at({kind, place, microbatch}) + shape_.Seconds(kind, place) <= now;
  }

  double Kept(int stage, double now) const {
    double kept = 0;
    for (const auto& [key, start] : start_) {
      const auto [kind, place, microbatch] = key;
      if (shape_.chunks[place].stage != stage) continue;
      if (kind == WorkKind::kForward && start <= now) kept += shape_.chunks[place].kept;
      if (kind == WorkKind::kBackward && Ended(kind, place, microbatch, now)) {
        kept -= shape_.chunks[place].kept;
      }
    }
    return kept;
  }

  const PipeShape& shape_;
  std::map<std::tuple<WorkKind, int, int>, double> start_;
};

// The moments in [from, to) at which something may have become ready: when something ends.
std::set<double> Moments(const PipeShape& shape, const std::vector<WorkOrder>& orders,
                         const OrderTimes& times, double from, double to) {
  std::set<double> moments;
  if (from < to) moments.insert(from);
  for (int s = 0; s < shape.stages; ++s) {
    for (size_t k = 0; k < orders[s].size(); ++k) {
      const double end = times.starts[s][k] + shape.Seconds(orders[s][k].kind, s);
      if (end > from && end < to) moments.insert(end);
    }
  }
  return moments;
}

TEST(GreedyOrdersTest, EventDrivenNeverIdlesWithReadyWork) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PipeShape shape = RandomShape(seed, 5, 6);
    if (shape.LayoutOf() != PipeShape::Layout::kStraight) continue;
    shape.split = false;
    for (PipeShape::Cut& cut : shape.cuts) cut = {};
    const auto orders = EventDrivenOrders(shape);
    const auto times = TimeOrders(shape, orders).value();
    const ReadyWork ready(shape, orders, times);
    for (int s = 0; s < shape.stages; ++s) {
      double free = 0;
      for (size_t k = 0; k < orders[s].size(); ++k) {
        const double start = times.starts[s][k];
        for (const double now : Moments(shape, orders, times, free, start)) {
          EXPECT_FALSE(ready.Any(s, now)) << seed << " stage " << s << " at " << now;
        }
        free = start + shape.Seconds(orders[s][k].kind, s);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
