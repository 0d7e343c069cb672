#include "plan/pipeline/device_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::ElementsAre;

TEST(DeviceOrderTest, CutsWhereLinksAreWeak) {
  // Two pairs {0, 2} and {1, 3} with strong links inside; across, 2 - 3 is best.
  const auto bandwidth = [](int a, int b) {
    if (a % 2 == b % 2) return 10.0;
    return a + b == 5 ? 2.0 : 1.0;
  };
  EXPECT_THAT(OrderByMinimumCuts(4, bandwidth), ElementsAre(0, 2, 3, 1));
}

TEST(DeviceOrderTest, EqualLinksKeepTheOrder) {
  const std::vector<int> order = OrderByMinimumCuts(6, [](int, int) { return 1.0; });
  EXPECT_EQ(order, OrderByMinimumCuts(6, [](int, int) { return 1.0; }));
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(DeviceOrderTest, NodesStayTogether) {
  const Cluster cluster = LoadCluster("examples/clusters/slow-rack.toml").value();
  const std::vector<double> speed(static_cast<size_t>(cluster.device_count()), 1);
  for (const std::vector<int>& order : DeviceOrders(cluster, speed)) {
    int changes = 0, racks = 0;
    for (size_t k = 1; k < order.size(); ++k) {
      const auto& a = cluster.devices()[static_cast<size_t>(order[k - 1])];
      const auto& b = cluster.devices()[static_cast<size_t>(order[k])];
      changes += a.node != b.node;
      racks += a.name[0] != b.name[0];
    }
    EXPECT_EQ(changes, static_cast<int>(cluster.nodes().size()) - 1);
    EXPECT_EQ(racks, 1);
  }
}

TEST(DeviceOrderTest, UnequalDevicesAlsoBySpeed) {
  const Cluster cluster = LoadCluster("examples/clusters/mixed4.toml").value();
  std::vector<double> speed;
  for (const Device& device : cluster.devices()) speed.push_back(device.type == 0 ? 1 : 2);
  const auto orders = DeviceOrders(cluster, speed);
  bool fast_first = false;
  for (const auto& order : orders) {
    bool sorted = true;
    for (size_t k = 1; k < order.size(); ++k) {
      sorted &= speed[static_cast<size_t>(order[k - 1])] >= speed[static_cast<size_t>(order[k])];
    }
    fast_first |= sorted;
  }
  EXPECT_TRUE(fast_first);
}

}  // namespace
}  // namespace heddle
