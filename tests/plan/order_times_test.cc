#include "plan/order/order_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pipe_shapes.h"
#include "plan/order/chain_steps.h"
#include "plan/order/greedy_orders.h"
#include "plan/order/orders.h"
#include "plan/order/pipe_run.h"

namespace heddle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<WorkOrder> Parse(const std::vector<std::string>& texts) {
  std::vector<WorkOrder> orders;
  for (const std::string& text : texts) orders.push_back(ParseOrder(text, "").value());
  return orders;
}

double Makespan(const PipeShape& shape, const std::vector<WorkOrder>& orders) {
  return TimeOrders(shape, orders).value().Of(OrderMeasure::kMakespan);
}

//   stage 0   F0 F1 .. .. .. I0 W0 I1 W1
//   channel      f0 f1 .. b0 .. b1
//   stage 1      .. F0 I0 F1 I1 W0 W1
TEST(OrderTimesTest, ByHand) {
  const PipeShape shape = StraightShape(2, 2, {.channel = 1});
  const auto times = TimeOrders(shape, Parse({"F F I W I W", "F I F I W W"})).value();
  EXPECT_THAT(times.starts[0], ElementsAre(0, 1, 5, 6, 7, 8));
  EXPECT_THAT(times.starts[1], ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(times.ends, ElementsAre(9, 8));
  EXPECT_THAT(times.spans, ElementsAre(9, 6));
  EXPECT_THAT(times.peaks, ElementsAre(4, 3));
  EXPECT_EQ(times.Of(OrderMeasure::kMakespan), 9);
}

// Messages from 1 to 5 and from 5 to 9; the gradient of the first is there at 8.
TEST(OrderTimesTest, OneChannelForBothWaysOrOneEach) {
  PipeShape shape = StraightShape(2, 2);
  shape.cuts[0] = {4, 2};
  const auto orders = Parse({"F F B B", "F B F B"});
  EXPECT_EQ(TimeOrders(shape, orders).value().starts[0][2], 11);
  shape.half_duplex = false;
  EXPECT_EQ(TimeOrders(shape, orders).value().starts[0][2], 10);
}

TEST(OrderTimesTest, StagesThatWaitForEachOther) {
  const auto times = TimeOrders(StraightShape(2, 2), Parse({"F B F B", "F F B B"}));
  ASSERT_FALSE(times.ok());
  EXPECT_THAT(times.error().ToString(), HasSubstr("stage 0 at B0.0, stage 1 at F1.0"));
  EXPECT_FALSE(TimeOrders(StraightShape(1, 1), Parse({"F W I"})).ok());
}

// design/2-pipeline.md: n = 4, M = 8, F = 1, B = 2, half-duplex channels of 0.5 each way.
TEST(OrderTimesTest, DesignCase) {
  const PipeShape slow = WholeShape(4, 8, {.channel = 0.5}, 8);
  EXPECT_EQ(Makespan(slow, OneForwardOneBackward(4, 8)), 41);
  EXPECT_EQ(Makespan(slow, WarmUpOrders(ListInFlight(4), 8)), 36);
  EXPECT_EQ(Makespan(slow, WarmUpOrders(EagerInFlight(4), 8)), 36);
  EXPECT_EQ(Makespan(slow, EventDrivenOrders(slow)), 36);
  const PipeShape free = WholeShape(4, 8, {}, 8);
  for (const auto& orders :
       {OneForwardOneBackward(4, 8), WarmUpOrders(ListInFlight(4), 8),
        WarmUpOrders(EagerInFlight(4), 8), GpipeOrders(4, 8), EventDrivenOrders(free)}) {
    EXPECT_EQ(Makespan(free, orders), 33);
  }
}

// SPP: list order <= (M + 4n - 4) C, C the work of the busiest machine for one microbatch.
TEST(OrderTimesTest, ListOrderKeepsItsPromise) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    PipeShape shape = RandomShape(seed, 8, 20);
    if (shape.LayoutOf() != PipeShape::Layout::kStraight) continue;
    shape.split = false;
    std::vector<double> work(MachineCount(shape), 0);
    for (const ChainStep& step : ChainSteps(shape)) work[step.machine] += step.seconds;
    const double busiest = *std::max_element(work.begin(), work.end());
    const auto orders = WarmUpOrders(ListInFlight(shape.stages), shape.microbatches);
    EXPECT_LE(Makespan(shape, orders), (shape.microbatches + 4 * shape.stages - 4) * busiest)
        << seed;
  }
}

// Goes down the lists, one event after the other.
class DownTheLists : public PipeRun::Chooser {
 public:
  DownTheLists(const PipeShape& shape, const std::vector<WorkOrder>& orders)
      : orders_(orders), places_(shape.PlacesByStage()), next_(orders.size(), 0) {}
  std::optional<PlacedWork> Next(const PipeRun& run, int stage) override {
    if (next_[stage] == orders_[stage].size()) return std::nullopt;
    const WorkItem& item = orders_[stage][next_[stage]];
    const PlacedWork work{item.kind, places_[stage][item.chunk], item.microbatch};
    if (!run.Ready(work)) return std::nullopt;
    ++next_[stage];
    return work;
  }

 private:
  const std::vector<WorkOrder>& orders_;
  std::vector<std::vector<int>> places_;
  std::vector<size_t> next_;
};

TEST(OrderTimesTest, ListsAndEventsAgree) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    PipeShape shape = RandomShape(seed, 6, 12);
    shape.half_duplex = false;
    if (!shape.HasRoom()) continue;
    const std::vector<WorkOrder> orders = GreedyOrders(shape, {.forward_first = seed % 2 == 0});
    const OrderTimes times = TimeOrders(shape, orders).value();
    DownTheLists chooser(shape, orders);
    PipeRun run(shape);
    run.Run(chooser);
    for (int s = 0; s < shape.stages; ++s) {
      EXPECT_EQ(times.ends[s], run.last_end(s)) << seed;
      EXPECT_EQ(times.spans[s], run.last_end(s) - run.first_start(s)) << seed;
      EXPECT_EQ(times.peaks[s], run.peak(s)) << seed;
    }
  }
}

}  // namespace
}  // namespace heddle
