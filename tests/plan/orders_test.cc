#include "plan/order/orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace heddle {
namespace {

TEST(OrdersTest, Gpipe) { EXPECT_EQ(PrintOrder(GpipeOrders(3, 4)[1]), "F*4 B3 B-*3"); }

TEST(OrdersTest, OneForwardOneBackward) {
  const auto orders = OneForwardOneBackward(4, 8);
  EXPECT_EQ(PrintOrder(orders[0]), "F*4 (B F)*4 B*4");
  EXPECT_EQ(orders[0], ParseOrder("F*3 (F B)*5 B*3", "").value());
  EXPECT_EQ(PrintOrder(orders[3]), "(F B)*8");
  // Fewer microbatches than stages: all forwards first.
  EXPECT_EQ(PrintOrder(OneForwardOneBackward(4, 2)[0]), "F*2 B*2");
}

// Two devices, two chunks each, four microbatches: forwards go chunk by chunk in groups of two.
TEST(OrdersTest, Interleaved) {
  const auto orders = InterleavedOrders(2, 2, 4);
  std::string first;
  for (const WorkItem& item : orders[0]) {
    first += static_cast<char>(item.kind) + std::to_string(item.microbatch) +
             (item.chunk != 0 ? "'" : "") + " ";
  }
  // Warm-up of 2 (2 - 0 - 1) + (2 - 1) 2 = 4 forwards; ' marks the second chunk.
  EXPECT_EQ(first, "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 ");
}

TEST(OrdersTest, EveryOrderDoesEverythingOnceForwardFirst) {
  for (const int stages : {1, 2, 3, 5}) {
    for (const int rounds : {1, 2, 3}) {
      const int microbatches = stages * rounds;
      for (const auto& orders :
           {GpipeOrders(stages, microbatches), OneForwardOneBackward(stages, microbatches),
            InterleavedOrders(stages, 3, microbatches)}) {
        ASSERT_EQ(orders.size(), static_cast<size_t>(stages));
        for (const WorkOrder& order : orders) {
          std::map<std::pair<int, int>, std::string> seen;
          for (const WorkItem& item : order) {
            seen[{item.chunk, item.microbatch}] += static_cast<char>(item.kind);
          }
          EXPECT_EQ(seen.size() % static_cast<size_t>(microbatches), 0U);
          for (const auto& entry : seen) EXPECT_EQ(entry.second, "FB");
        }
      }
    }
  }
}

// The most microbatches in flight: S - s under 1F1B, all of them under GPipe.
TEST(OrdersTest, InFlight) {
  const auto in_flight = [](const WorkOrder& order) {
    int now = 0, most = 0;
    for (const WorkItem& item : order) {
      now += item.kind == WorkKind::kForward ? 1 : -1;
      most = std::max(most, now);
    }
    return most;
  };
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(in_flight(OneForwardOneBackward(4, 16)[static_cast<size_t>(s)]), 4 - s);
    EXPECT_EQ(in_flight(GpipeOrders(4, 16)[static_cast<size_t>(s)]), 16);
  }
}

}  // namespace
}  // namespace heddle
