// Expansion of counts and patterns, connectivity, and the example files.
#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "cluster_text.h"
#include "support/places.h"

namespace heddle {
namespace {

std::string WireNames(const Cluster& cluster) {
  std::string text;
  for (const Wire& wire : cluster.wires()) text += (text.empty() ? "" : " ") + wire.name;
  return text;
}

TEST(ClusterTest, WritesNodesAndWiresOut) {
  const Cluster cluster = GoodCluster(NodeText("a", 2) + NodeText("b", 1) + LinkText("a", "b"));
  EXPECT_EQ(cluster.device_count(), 3);
  EXPECT_EQ(cluster.devices()[1].name, "a:1");
  EXPECT_EQ(cluster.nodes()[1].devices, std::vector<DeviceId>{DeviceId{2}});
  EXPECT_EQ(cluster.device(DeviceId{2}).node, 1);
  EXPECT_EQ(WireNames(cluster), "a:0->a:1 a:1->a:0 a->b b->a");
}

TEST(ClusterTest, FindsDevicesByTheirWholeName) {
  const Cluster cluster = GoodCluster(NodeText("a", 2));
  EXPECT_EQ(cluster.FindDevice("a:1"), DeviceId{1});
  for (const char* name : {"a:2", "a:-1", "a:01", "a:", "a", "b:0", "", ":0", "a:1x"}) {
    EXPECT_FALSE(cluster.FindDevice(name).has_value()) << name;
  }
}

TEST(ClusterTest, CountRepeatsNodesAndPatternsLinks) {
  const Cluster cluster = GoodCluster(BareNodeText("n", 1, "count = 3") + SwitchText("s") +
                                      LinkText("n*", "s", "1 GB/s", "1 us", "duplex = \"half\""));
  EXPECT_EQ(cluster.nodes()[2].name, "n2");
  EXPECT_EQ(cluster.devices()[2].name, "n2:0");
  EXPECT_EQ(WireNames(cluster), "n0--s n1--s n2--s");
}

TEST(ClusterTest, ACountOfOneStillNumbersTheCopy) {
  const Cluster cluster = GoodCluster(BareNodeText("n", 1, "count = 1"));
  EXPECT_EQ(cluster.devices()[0].name, "n0:0");
}

TEST(ClusterTest, PatternsOfDifferentCountsMeetInBlocks) {
  const Cluster cluster =
      GoodCluster(BareNodeText("n", 1, "count = 6") + SwitchText("s", "count = 2") +
                  SwitchText("t") + LinkText("s*", "n*", "1 GB/s", "1 us", "duplex = \"half\"") +
                  LinkText("t", "s*", "1 GB/s", "1 us", "duplex = \"half\""));
  EXPECT_EQ(WireNames(cluster), "s0--n0 s0--n1 s0--n2 s1--n3 s1--n4 s1--n5 t--s0 t--s1");
}

TEST(ClusterTest, PatternsNameDevicesOfEveryCopy) {
  const Cluster cluster = GoodCluster(
      BareNodeText("n", 2, "count = 2") +
      LinkText("n*:0", "n*:1", "1 GB/s", "1 us", "duplex = \"half\"") + LinkText("n0", "n1"));
  EXPECT_EQ(WireNames(cluster), "n0:0--n0:1 n1:0--n1:1 n0->n1 n1->n0");
}

TEST(ClusterTest, RefusesEndsThatNameNothing) {
  const std::string nodes = kPreamble + NodeText("rack", 2) + NodeText("n", 2, "count = 4") +
                            SwitchText("s", "count = 3") + SwitchText("t");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rakc", "t")), "link[0].between: \"rakc\" is no node");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rakc", "t")), "did you mean \"rack\"?");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("n", "t")), "write \"n*\" for all of them");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rack*", "t")), "\"rack\" has no count");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("n4", "t")), "\"n4\" is no node");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rack:2", "t")), "rack:0 to rack:1");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rack:x", "t")), "names no device");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("rack:", "t")), "names no device");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("t:0", "rack")), "is a switch");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("", "rack")), "is no node");
  EXPECT_CONTAINS(ErrorOf(nodes + LinkText("*", "rack")), "is no node");
}

TEST(ClusterTest, RefusesPatternsThatDoNotDivide) {
  const std::string text = kPreamble + NodeText("n", 2, "count = 4") + SwitchText("s", "count = 3");
  EXPECT_CONTAINS(ErrorOf(text + LinkText("n*", "s*")), "\"n*\" has 4 copies, \"s*\" has 3");
}

TEST(ClusterTest, RefusesLinksThatMakeNoSense) {
  const std::string text = kPreamble + NodeText("a", 2) + NodeText("b", 1) + LinkText("a", "b");
  EXPECT_CONTAINS(ErrorOf(text + LinkText("a", "a")), "links a to itself");
  EXPECT_CONTAINS(ErrorOf(text + LinkText("a:0", "a")), "port of its own node");
  EXPECT_CONTAINS(ErrorOf(text + LinkText("b", "a")), "a second link between b and a");
}

TEST(ClusterTest, NamesTwoDevicesThatCannotReachEachOther) {
  const std::string text = kPreamble + NodeText("a", 2) + NodeText("b", 1) + NodeText("c", 1) +
                           LinkText("a", "b") + SwitchText("s") + LinkText("c", "s");
  EXPECT_CONTAINS(ErrorOf(text), "devices a:0 and c:0 cannot reach each other");
}

TEST(ClusterTest, ThePortDoesNotJoinTheDevicesOfANode) {
  const std::string text = kPreamble + BareNodeText("a", 2) + NodeText("b", 1) + SwitchText("s");
  const std::string error = ErrorOf(text + LinkText("a", "s") + LinkText("b", "s"));
  EXPECT_CONTAINS(error, "node \"a\": no links join its devices a:0 and a:1");
  EXPECT_CONTAINS(error, "link = {");
  // Each by its own link to the switch is enough.
  EXPECT_TRUE(
      ParseClusterToml(text + LinkText("a:0", "s") + LinkText("a:1", "s") + LinkText("b", "s"), "t")
          .ok());
}

TEST(ClusterTest, OneDeviceIsACluster) {
  const Cluster cluster = GoodCluster(BareNodeText("a", 1));
  const Route& route = cluster.RouteBetween(DeviceId{0}, DeviceId{0});
  EXPECT_TRUE(route.wires.empty());
  EXPECT_EQ(route.latency.value, 0);
  EXPECT_TRUE(std::isinf(route.bandwidth.value));
}

TEST(ClusterTest, MovesKeepRoutes) {
  Cluster first = GoodCluster(NodeText("a", 2));
  const Route* route = &first.RouteBetween(DeviceId{0}, DeviceId{1});
  const Cluster second = std::move(first);
  EXPECT_EQ(&second.RouteBetween(DeviceId{0}, DeviceId{1}), route);
}

TEST(ClusterTest, TheLargestNodeFits) {
  const Cluster cluster =
      GoodCluster(BareNodeText("a", 1024, "link = { bandwidth = \"1 GB/s\", duplex = \"half\" }"));
  EXPECT_EQ(cluster.wires().size(), size_t{1024 * 1023 / 2});
  EXPECT_EQ(RouteText(cluster, "a:7", "a:1000"), "a:7--a:1000");
  EXPECT_EQ(RouteText(cluster, "a:1023", "a:1022"), "a:1022--a:1023");
  EXPECT_CONTAINS(ErrorOf(kPreamble + NodeText("a", 1024)), "wires in all");
}

TEST(ClusterExamplesTest, AllLoad) {
  int files = 0;
  const std::string folder = SourceDir() + "/examples/clusters";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    const Result<Cluster> cluster = LoadCluster(entry.path().string());
    ASSERT_TRUE(cluster.ok()) << cluster.error().ToString();
    ++files;
  }
  EXPECT_GE(files, 7);
}

Cluster Example(const std::string& name) {
  return LoadCluster(SourceDir() + "/examples/clusters/" + name).value();
}

TEST(ClusterExamplesTest, HaveTheDevicesTheyPromise) {
  EXPECT_EQ(Example("equal8.toml").device_count(), 8);
  EXPECT_EQ(Example("mixed4.toml").device_count(), 4);
  EXPECT_EQ(Example("irregular.toml").device_count(), 6);
  EXPECT_EQ(Example("laptop.toml").device_count(), 2);
  EXPECT_EQ(Example("slow-rack.toml").device_count(), 16);
  const Cluster hap = Example("hap64.toml");
  EXPECT_EQ(hap.device_count(), 64);
  EXPECT_EQ(hap.type_of(DeviceId{15}).name, "v100");
  EXPECT_EQ(hap.type_of(DeviceId{16}).name, "p100");
  EXPECT_EQ(RouteText(hap, "v0:3", "p5:7"), "v0->core core->p5");
}

TEST(ClusterExamplesTest, MixedFourTakesThePorts) {
  const Cluster cluster = Example("mixed4.toml");
  const Route& route = cluster.RouteBetween(DeviceId{1}, DeviceId{2});
  EXPECT_EQ(RouteText(cluster, "a:1", "b:0"), "a->b");
  EXPECT_DOUBLE_EQ(route.latency.value, 20e-6);
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 1.25e9);
}

TEST(ClusterExamplesTest, FatTreeHasRoutesFromEverywhere) {
  const Cluster cluster = Example("fat-tree-1024.toml");
  ASSERT_EQ(cluster.device_count(), 1024);
  for (int i = 0; i < 1024; ++i) {
    EXPECT_GT(cluster.RouteBetween(DeviceId{i}, DeviceId{(i + 1) % 1024}).bandwidth.value, 0);
    EXPECT_GT(cluster.RouteBetween(DeviceId{i}, DeviceId{(i + 500) % 1024}).bandwidth.value, 0);
  }
  EXPECT_EQ(RouteText(cluster, "node7:0", "node0:3"), "node7->leaf0 leaf0->node0");
  EXPECT_EQ(RouteText(cluster, "node7:0", "node8:3"),
            "node7->leaf0 leaf0->core core->leaf1 leaf1->node8");
}

}  // namespace
}  // namespace heddle
