#include "cluster/without_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster.h"

namespace heddle {
namespace {

using testing::HasSubstr;

ClusterSpec Spec(const std::string& more = "") {
  return ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.fast]
flops = "2 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "1 GB/s"
[device_type.slow]
flops = "1 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "1 GB/s"
[[node]]
name = "a"
devices = [{ type = "fast", count = 2 }, { type = "slow", count = 1 }]
link = { bandwidth = "1 GB/s", latency = "1 us" }
[[node]]
name = "b"
devices = [{ type = "slow", count = 1 }]
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "1 us"
)" + more,
                          "cluster")
      .value()
      .spec();
}

std::string TypesAfter(const std::string& lost) {
  const Cluster cluster = Cluster::Make(WithoutDevice(Spec(), lost).value(), "rest").value();
  std::string types;
  for (int d = 0; d < cluster.device_count(); ++d) {
    types += cluster.device(DeviceId{d}).name + "=" + cluster.type_of(DeviceId{d}).name + " ";
  }
  return types;
}

TEST(WithoutDeviceTest, OthersMoveUp) {
  EXPECT_EQ(TypesAfter("a:0"), "a:0=fast a:1=slow b:0=slow ");
  EXPECT_EQ(TypesAfter("a:2"), "a:0=fast a:1=fast b:0=slow ");
}

TEST(WithoutDeviceTest, AnEmptyNodeGoesWithItsLinks) {
  EXPECT_EQ(TypesAfter("b:0"), "a:0=fast a:1=fast a:2=slow ");
}

// By a switch of the node's own the rest stays joined, at the bandwidth of each one's link.
TEST(WithoutDeviceTest, LinksToTheNodesSwitchMoveUp) {
  const ClusterSpec three = ParseClusterToml(R"(schema = "heddle.cluster/1"
[[node]]
name = "a"
devices = [{ type = "t4", count = 2 }, { type = "l4" }]
link = "pcie4"
)",
                                             "cluster")
                                .value()
                                .spec();
  const ClusterSpec two = WithoutDevice(three, "a:0").value();
  const Cluster cluster = Cluster::Make(two, "rest").value();
  ASSERT_EQ(cluster.device_count(), 2);
  EXPECT_EQ(cluster.type_of(DeviceId{1}).name, "l4");
  EXPECT_EQ(cluster.wires().size(), 4u);
  EXPECT_EQ(cluster.RouteBetween(DeviceId{0}, DeviceId{1}).wires.size(), 2u);
  const ClusterSpec one = WithoutDevice(two, "a:1").value();
  EXPECT_EQ(Cluster::Make(one, "rest").value().wires().size(), 2u);
  const ClusterSpec none = WithoutDevice(one, "a:0").value();
  EXPECT_TRUE(none.nodes.empty() && none.links.empty() && none.switches.empty());
}

TEST(WithoutDeviceTest, WhatCannotBeRenumberedIsRefused) {
  EXPECT_FALSE(WithoutDevice(Spec(), "c:0").ok());
  EXPECT_FALSE(WithoutDevice(Spec(), "a").ok());
  const auto refused = WithoutDevice(Spec(R"([[link]]
between = ["a:1", "b:0"]
bandwidth = "1 GB/s"
latency = "1 us"
)"),
                                     "a:0");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what, HasSubstr("a:1 has a link of its own"));
}

}  // namespace
}  // namespace heddle
