#include "plan/order/exact_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "pipe_shapes.h"
#include "plan/order/best_order.h"
#include "plan/order/order_bound.h"

namespace heddle {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// All orders of one stage that do every kind of work by microbatch, `chain` being the kinds in the
// order of a microbatch's way; each kind needs the one before it.
std::vector<WorkOrder> AllOrders(const std::vector<WorkItem>& chain, int microbatches) {
  std::vector<WorkOrder> all;
  WorkOrder order;
  std::vector<int> done(chain.size(), 0);
  const std::function<void()> extend = [&] {
    if (order.size() == chain.size() * static_cast<size_t>(microbatches)) {
      all.push_back(order);
      return;
    }
    for (size_t k = 0; k < chain.size(); ++k) {
      if (done[k] == (k == 0 ? microbatches : done[k - 1])) continue;
      order.push_back({chain[k].kind, chain[k].chunk, done[k]++});
      extend();
      order.pop_back();
      --done[k];
    }
  };
  extend();
  return all;
}

double ShortestOfAll(const PipeShape& shape, const std::vector<WorkOrder>& all) {
  double shortest = kUnknown;
  for (const WorkOrder& first : all) {
    for (const WorkOrder& second : all) {
      const auto times = TimeOrders(shape, {first, second});
      if (!times.ok() || !FitsMemory(shape, times.value())) continue;
      shortest = std::min(shortest, times.value().Of(OrderMeasure::kMakespan));
    }
  }
  return shortest;
}

// With a channel for each way messages go by microbatch, so that orders of stages are all there is.
TEST(ExactOrderTest, EqualsBruteForce) {
  int compared = 0;
  for (uint64_t seed = 0; compared < 25; ++seed) {
    PipeShape shape = RandomShape(seed, 2, 3);
    shape.half_duplex = false;
    if (shape.places() != 2 || shape.stages != 2) continue;
    if (shape.split && shape.microbatches > 2) continue;
    ++compared;
    const std::string chain = shape.split ? "F I W" : "F B";
    const auto all = AllOrders(ParseOrder(chain, "").value(), shape.microbatches);
    const ExactOrder exact = SolveOrder(shape, kUnknown).value();
    EXPECT_TRUE(exact.proven);
    EXPECT_EQ(exact.makespan, ShortestOfAll(shape, all)) << seed;
  }
}

// Two chunks on each stage, whose forwards compete for memory. Messages of different chunks share a
// channel, which need not serve them as they come: so none here.
TEST(ExactOrderTest, EqualsBruteForceOfTwoChunks) {
  const auto all = AllOrders(ParseOrder("F F.1 B.1 B", "").value(), 2);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<PipeShape::Chunk> times = RandomShape(seed + 100, 2, 2).chunks;
    PipeShape shape = VShape(2, 2, {.forward = times[0].forward, .input = times[0].input});
    shape.chunks[1].forward = times.back().forward;
    shape.chunks[3].input = times.back().input;
    shape.chunks[seed % 4].kept = 2;
    shape.split = false;
    shape.limits = {3.0 + static_cast<double>(seed % 3), 3.0 + static_cast<double>(seed % 2)};
    EXPECT_EQ(SolveOrder(shape, kUnknown).value().makespan, ShortestOfAll(shape, all)) << seed;
  }
}

TEST(ExactOrderTest, KnownCases) {
  // One microbatch goes down and up; the last weight part is the first stage's.
  EXPECT_EQ(SolveOrder(StraightShape(3, 1, {.channel = 0.5}), kUnknown).value().makespan, 9);
  EXPECT_EQ(SolveOrder(WholeShape(4, 8, {.channel = 0.5}, 8), 37).value().makespan, 36);
  // Room for one microbatch: one after the other, but for the first stage's weight parts.
  PipeShape one_by_one = StraightShape(2, 3);
  one_by_one.limits = {2, 2};
  EXPECT_EQ(SolveOrder(one_by_one, kUnknown).value().makespan, 15);
  one_by_one.limits = {2, 1};
  EXPECT_FALSE(SolveOrder(one_by_one, kUnknown).ok());
}

TEST(ExactOrderTest, SaysWhenItGaveUp) {
  const ExactOrder exact = SolveOrder(StraightShape(3, 4, {.channel = 0.3}), 1000, 5).value();
  EXPECT_FALSE(exact.proven);
  EXPECT_EQ(exact.makespan, 1000);
}

// Bounds hold, and the best of the orders is near the optimum at equal memory.
TEST(ExactOrderTest, BoundAndBestOrderAgainstTheOptimum) {
  double sum = 0, worst = 1;
  constexpr int kInstances = 60;
  for (uint64_t seed = 0; seed < kInstances; ++seed) {
    const PipeShape shape = RandomShape(seed, 3, 4);
    const OrderChoice choice = BestOrder(shape).value();
    // One above what is known, so that the optimum is found and not only believed.
    const ExactOrder exact = SolveOrder(shape, choice.best.time + 1).value();
    ASSERT_TRUE(exact.proven) << seed;
    EXPECT_LE(OrderBound(shape), exact.makespan * (1 + 1e-9)) << seed;
    EXPECT_LE(exact.makespan, choice.best.time) << seed;
    const double ratio = choice.best.time / exact.makespan;
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_LE(sum / kInstances, 1.02);
  EXPECT_LE(worst, 1.1);
}

}  // namespace
}  // namespace heddle
