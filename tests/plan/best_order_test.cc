#include "plan/order/best_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipe_shapes.h"
#include "plan/order/order_bound.h"
#include "plan/order/order_search.h"
#include "plan/order/zero_bubble.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

constexpr auto kSpan = OrderMeasure::kSpan;

// The longest span of orders that must keep within `microbatches` on each stage.
double SpanWithin(double microbatches, const PipeShape& shape,
                  const std::vector<WorkOrder>& orders) {
  const OrderTimes times = TimeOrders(shape, orders).value();
  for (const double peak : times.peaks) EXPECT_LE(peak, 2 * microbatches);
  return times.Of(kSpan);
}

// design/2-pipeline.md: what others' heuristics reach, times all 1, no messages.
TEST(ZeroBubbleTest, ReferencePoints) {
  struct Point {
    int stages, microbatches;
    double h1, full, half, min;
  };
  for (const Point& point : {Point{4, 8, 27, 24, 27, 27}, Point{8, 24, 79, 72, 82.5, 85.5},
                             Point{16, 64, 207, 192, 214.5, 221.5}}) {
    const int stages = point.stages;
    const PipeShape straight = StraightShape(stages, point.microbatches);
    EXPECT_LE(SpanWithin(stages, straight, ZeroBubbleOrders(straight, "zb-h1", kSpan)), point.h1);
    EXPECT_LE(SpanWithin(2 * stages, straight, ZeroBubbleOrders(straight, "zb-h2", kSpan)),
              point.full);
    const PipeShape v = VShape(stages, point.microbatches);
    EXPECT_LE(SpanWithin(stages, v, ZeroBubbleOrders(v, "v-zb", kSpan)), point.full);
    EXPECT_LE(SpanWithin(stages / 2 + 1, v, ZeroBubbleOrders(v, "v-half", kSpan)), point.half);
    EXPECT_LE(SpanWithin((stages + 6) / 3, v, ZeroBubbleOrders(v, "v-min", kSpan)), point.min);
  }
}

TEST(BestOrderTest, UnequalTimesWithinMemory) {
  PipeShape shape = StraightShape(4, 12, {.forward = 5, .input = 6, .weight = 4});
  shape.limits.assign(4, 10);
  EXPECT_LE(BestOrder(shape, {kSpan, 2'000'000}).value().best.time, 193);
  shape.limits.assign(4, 14);
  EXPECT_LE(BestOrder(shape, {kSpan, 2'000'000}).value().best.time, 183);
}

TEST(BestOrderTest, DesignCase) {
  const OrderChoice choice = BestOrder(WholeShape(4, 8, {.channel = 0.5}, 8)).value();
  EXPECT_EQ(choice.best.time, 36);
  EXPECT_EQ(choice.bound, 36);
  EXPECT_EQ(choice.best.name, "eager 1f1b");
  EXPECT_EQ(choice.tried.back().name, "1f1b");
  EXPECT_EQ(choice.tried.back().time, 41);
}

TEST(BestOrderTest, SaysWhatDoesNotFit) {
  const OrderChoice choice = BestOrder(WholeShape(4, 8, {.channel = 0.5}, 4)).value();
  for (const TriedOrder& tried : choice.tried) EXPECT_EQ(tried.fits, tried.name != "gpipe");
  PipeShape none = WholeShape(4, 8, {}, 1);
  none.limits[2] = 1;
  const auto error = BestOrder(none);
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(error.error().ToString(), HasSubstr("stage 2: keeps 2 of one microbatch"));
}

TEST(BestOrderTest, WithinMemoryAndNotBelowTheBound) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PipeShape shape = RandomShape(seed, 6, 9);
    const OrderChoice choice = BestOrder(shape, {.search_items = 20'000}).value();
    const OrderTimes times = TimeOrders(shape, choice.best.orders).value();
    EXPECT_TRUE(FitsMemory(shape, times)) << seed;
    EXPECT_EQ(times.Of(OrderMeasure::kMakespan), choice.best.time) << seed;
    EXPECT_LE(OrderBound(shape), choice.best.time * (1 + 1e-9)) << seed;
  }
}

TEST(OrderSearchTest, TheSameAgainAndNeverWorse) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const PipeShape shape = RandomShape(seed, 4, 6);
    const auto start = BoundedMemoryOrders(shape, 1, OrderMeasure::kMakespan);
    const OrderSearch search{.items = 20'000, .seed = seed, .slack = 0.1};
    const auto found = ImproveOrders(shape, start, search);
    EXPECT_EQ(found, ImproveOrders(shape, start, search));
    EXPECT_LE(TimeOrders(shape, found).value().Of(OrderMeasure::kMakespan),
              TimeOrders(shape, start).value().Of(OrderMeasure::kMakespan));
  }
}

}  // namespace
}  // namespace heddle
