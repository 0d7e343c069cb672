// Routes on graphs computed by hand, and against a slow search on random ones.
#include "cluster/routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "cluster/cluster.h"
#include "cluster_text.h"

namespace heddle {
namespace {

TEST(RoutesTest, InsideANodeTheDirectLinkIsTaken) {
  const Cluster cluster = GoodCluster(NodeText("a", 4));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (i == j) continue;
      const std::string from = fmt::format("a:{}", i);
      const std::string to = fmt::format("a:{}", j);
      EXPECT_EQ(RouteText(cluster, from, to), from + "->" + to);
    }
  }
}

TEST(RoutesTest, AcrossNodesThePortsAreFree) {
  const Cluster cluster =
      GoodCluster(NodeText("a", 2) + NodeText("b", 2) + SwitchText("s") +
                  LinkText("a", "s", "1 GB/s", "10 us") + LinkText("s", "b", "2 GB/s", "7 us"));
  EXPECT_EQ(RouteText(cluster, "a:1", "b:0"), "a->s s->b");
  EXPECT_EQ(RouteText(cluster, "b:1", "a:1"), "b->s s->a");
  const Route& route = cluster.RouteBetween(DeviceId{0}, DeviceId{3});
  EXPECT_DOUBLE_EQ(route.latency.value, 17e-6);
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 1e9);
  // One route for all pairs of two plain nodes.
  EXPECT_EQ(&route, &cluster.RouteBetween(DeviceId{1}, DeviceId{2}));
}

TEST(RoutesTest, PortsOfOtherNodesPassMessagesOn) {
  const Cluster cluster = GoodCluster(NodeText("a", 2) + NodeText("b", 2) + NodeText("c", 1) +
                                      LinkText("a", "b") + LinkText("b", "c"));
  EXPECT_EQ(RouteText(cluster, "a:0", "c:0"), "a->b b->c");
}

TEST(RoutesTest, TheCostIsLatencyPlusOneMebibyte) {
  // 1 MiB over 1 GB/s is 1049 us, over 10 GB/s 105 us.
  const std::string text = NodeText("a", 1) + NodeText("b", 1) + SwitchText("s");
  EXPECT_EQ(RouteText(GoodCluster(text + LinkText("a", "b", "1 GB/s", "0 us") +
                                  LinkText("a", "s", "10 GB/s", "400 us") +
                                  LinkText("s", "b", "10 GB/s", "400 us")),
                      "a:0", "b:0"),
            "a->s s->b");
  EXPECT_EQ(RouteText(GoodCluster(text + LinkText("a", "b", "1 GB/s", "0 us") +
                                  LinkText("a", "s", "10 GB/s", "430 us") +
                                  LinkText("s", "b", "10 GB/s", "430 us")),
                      "a:0", "b:0"),
            "a->b");
}

TEST(RoutesTest, TiesGoToTheEarlierVertex) {
  const std::string nodes = NodeText("a", 1) + NodeText("b", 1) + SwitchText("s", "count = 2");
  const std::string links[] = {
      LinkText("a", "s*") + LinkText("s*", "b"),
      LinkText("s1", "b") + LinkText("a", "s1") + LinkText("a", "s0") + LinkText("b", "s0")};
  for (const std::string& text : links) {
    EXPECT_EQ(RouteText(GoodCluster(nodes + text), "a:0", "b:0"), "a->s0 s0->b");
  }
}

TEST(RoutesTest, ListedLinksBetweenDevicesRelay) {
  // A path of three devices in one node, and a fourth behind the last.
  const Cluster cluster =
      GoodCluster(BareNodeText("a", 3) + BareNodeText("b", 1) + LinkText("a:0", "a:1") +
                  LinkText("a:1", "a:2") + LinkText("a:2", "b:0"));
  EXPECT_EQ(RouteText(cluster, "a:0", "a:2"), "a:0->a:1 a:1->a:2");
  EXPECT_EQ(RouteText(cluster, "b:0", "a:0"), "b:0->a:2 a:2->a:1 a:1->a:0");
}

TEST(RoutesTest, ADeviceWithItsOwnUplinkIsAGateway) {
  // Only a:1 has a link to b; a:0 reaches it over the node's link.
  const Cluster cluster = GoodCluster(NodeText("a", 2) + NodeText("b", 2) + LinkText("a:1", "b"));
  EXPECT_EQ(RouteText(cluster, "a:0", "b:1"), "a:0->a:1 a:1->b");
  EXPECT_EQ(RouteText(cluster, "b:1", "a:0"), "b->a:1 a:1->a:0");
  EXPECT_EQ(RouteText(cluster, "a:1", "a:0"), "a:1->a:0");
}

TEST(RoutesTest, AThirdNodesDevicesRelayAlongListedLinks) {
  const Cluster cluster = GoodCluster(NodeText("a", 1) + NodeText("b", 2) + NodeText("c", 1) +
                                      LinkText("a:0", "b:0") + LinkText("b:1", "c:0"));
  EXPECT_EQ(RouteText(cluster, "a:0", "c:0"), "a:0->b:0 b:0->b:1 b:1->c:0");
  // Into b by its port, out by the link of its device.
  const Cluster port = GoodCluster(NodeText("a", 1) + NodeText("b", 2) + NodeText("c", 1) +
                                   LinkText("a", "b") + LinkText("b:1", "c:0"));
  EXPECT_EQ(RouteText(port, "a:0", "c:0"), "a->b b:1->c:0");
}

TEST(RoutesTest, InsideANodeOwnLinksWinOverShorterWaysOutside) {
  const std::string fast = LinkText("a:0", "s", "100 GB/s", "0 us") +
                           LinkText("a:1", "s", "100 GB/s", "0 us") + SwitchText("s");
  EXPECT_EQ(RouteText(GoodCluster(NodeText("a", 2) + fast), "a:0", "a:1"), "a:0->a:1");
  EXPECT_EQ(RouteText(GoodCluster(BareNodeText("a", 2) + fast), "a:0", "a:1"), "a:0->s s->a:1");
}

TEST(RoutesTest, AListedLinkMayBeFasterThanTheNodesMesh) {
  const Cluster cluster =
      GoodCluster(NodeText("a", 3) + LinkText("a:0", "a:1", "100 GB/s", "1 us") +
                  LinkText("a:1", "a:2", "100 GB/s", "1 us"));
  EXPECT_EQ(RouteText(cluster, "a:0", "a:2"), "a:0->a:1 a:1->a:2");
  const Route& route = cluster.RouteBetween(DeviceId{0}, DeviceId{2});
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 100e9);  // the listed ones, not the mesh of 10 GB/s
}

TEST(RoutesTest, NeverFromDeviceToPortToDevice) {
  // The port of a is linked to everything by fast wires, the devices by one slow one.
  const Cluster cluster = GoodCluster(BareNodeText("a", 2) + NodeText("b", 1) +
                                      LinkText("a:0", "a:1", "1 MB/s", "1 ms") +
                                      LinkText("a", "b", "100 GB/s", "0 us"));
  EXPECT_EQ(RouteText(cluster, "a:0", "a:1"), "a:0->a:1");
  EXPECT_EQ(RouteText(cluster, "a:1", "b:0"), "a->b");
}

TEST(RoutesTest, HalfDuplexWiresServeBothDirections) {
  const Cluster cluster = GoodCluster(NodeText("a", 1) + NodeText("b", 1) +
                                      LinkText("a", "b", "1 GB/s", "1 us", "duplex = \"half\""));
  EXPECT_EQ(RouteText(cluster, "a:0", "b:0"), "a--b");
  EXPECT_EQ(RouteText(cluster, "b:0", "a:0"), "a--b");
}

TEST(RoutesTest, ThreadsMayAskAtOnce) {
  const Cluster cluster = GoodCluster(NodeText("n", 4, "count = 16") + SwitchText("s") +
                                      LinkText("n*", "s") + LinkText("n0:1", "n3:2"));
  std::vector<std::thread> threads;
  std::vector<double> sums(4, 0);
  for (double& sum : sums) {
    threads.emplace_back([&cluster, &sum] {
      for (int i = 0; i < 64; ++i) {
        for (int j = 0; j < 64; ++j) {
          sum += cluster.RouteBetween(DeviceId{i}, DeviceId{j}).latency.value;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<double>(sums.begin(), sums.end()).size(), 1u);
}

// --- random clusters against Bellman and Ford, with all devices and both sides of the ports ---

double CostOf(const Wire& wire) { return wire.latency.value + (1 << 20) / wire.bandwidth.value; }

class SlowSearch {
 public:
  explicit SlowSearch(const Topology& topology) : topology_(topology) {
    for (const Topology::Link& link : topology.links) {
      AddWire(link.a, link.b, link.forward);
      AddWire(link.b, link.a, link.backward);
    }
    for (int node = 0; node < topology.node_count(); ++node) {
      const std::vector<DeviceId>& devices = topology.nodes[static_cast<size_t>(node)].devices;
      for (size_t i = 0; i < devices.size(); ++i) {
        free_.push_back({devices[i].value, PortOut(node), 0});
        free_.push_back({topology.PortVertex(node), devices[i].value, 0});
        for (size_t j = 0; j < devices.size(); ++j) {
          if (i == j || topology.meshes[static_cast<size_t>(node)].first_wire < 0) continue;
          AddWire(devices[i].value, devices[j].value,
                  topology.MeshWire(node, static_cast<int>(i), static_cast<int>(j)));
        }
      }
    }
  }

  double Cost(int from, int to) const {
    const int node = topology_.devices[static_cast<size_t>(from)].node;
    const bool same = node == topology_.devices[static_cast<size_t>(to)].node;
    if (!same) {
      std::vector<Edge> all = wires_;
      all.insert(all.end(), free_.begin(), free_.end());
      return Cheapest(all, from, to);
    }
    std::vector<Edge> own;
    for (const Edge& edge : wires_) {
      const bool inside = topology_.IsDevice(edge.from) && topology_.IsDevice(edge.to) &&
                          topology_.devices[static_cast<size_t>(edge.from)].node == node &&
                          topology_.devices[static_cast<size_t>(edge.to)].node == node;
      if (inside) own.push_back(edge);
    }
    const double cost = Cheapest(own, from, to);
    return std::isinf(cost) ? Cheapest(wires_, from, to) : cost;
  }

 private:
  struct Edge {
    int from, to;
    double cost;
  };

  int PortOut(int node) const { return topology_.vertex_count() + node; }
  void AddWire(int from, int to, WireId wire) {
    const double cost = CostOf(topology_.wires[static_cast<size_t>(wire.value)]);
    wires_.push_back({from, to, cost});
    const int node = from - topology_.device_count();
    if (node >= 0 && node < topology_.node_count()) free_.push_back({PortOut(node), to, cost});
  }
  double Cheapest(const std::vector<Edge>& edges, int from, int to) const {
    const auto count = static_cast<size_t>(PortOut(topology_.node_count()));
    std::vector<double> cost(count, std::numeric_limits<double>::infinity());
    cost[static_cast<size_t>(from)] = 0;
    for (size_t round = 0; round < count; ++round) {
      for (const Edge& edge : edges) {
        double& known = cost[static_cast<size_t>(edge.to)];
        known = std::min(known, cost[static_cast<size_t>(edge.from)] + edge.cost);
      }
    }
    return cost[static_cast<size_t>(to)];
  }

  const Topology& topology_;
  std::vector<Edge> wires_;
  std::vector<Edge> free_;  // and the wires that leave a port's "out"
};

LinkSpec RandomLink() {
  LinkSpec link;
  link.bandwidth.value = *rc::gen::inRange(1, 20) * 1e9;
  link.latency.value = *rc::gen::inRange(0, 50) * 1e-6;
  link.half_duplex = *rc::gen::inRange(0, 4) == 0;
  return link;
}

ClusterSpec RandomSpec() {
  ClusterSpec spec = GoodCluster(NodeText("a", 1)).spec();
  spec.nodes.clear();
  std::vector<std::string> ends;
  const int nodes = *rc::gen::inRange(1, 5);
  for (int i = 0; i < nodes; ++i) {
    NodeSpec node{fmt::format("n{}", i), std::nullopt, {{"gpu", *rc::gen::inRange(1, 4)}}, {}};
    if (*rc::gen::inRange(0, 4) > 0) node.link = RandomLink();
    ends.push_back(node.name);
    for (int d = 0; d < node.devices[0].count; ++d) {
      ends.push_back(fmt::format("{}:{}", node.name, d));
    }
    spec.nodes.push_back(node);
  }
  const int switches = *rc::gen::inRange(0, 3);
  for (int i = 0; i < switches; ++i) {
    spec.switches.push_back({fmt::format("s{}", i), std::nullopt});
    ends.push_back(spec.switches.back().name);
  }
  const int links = *rc::gen::inRange(0, 12);
  for (int i = 0; i < links; ++i) {
    const std::string a = *rc::gen::elementOf(ends);
    const std::string b = *rc::gen::elementOf(ends);
    const bool own_port = a.starts_with(b + ":") || b.starts_with(a + ":");
    const bool twice = std::any_of(spec.links.begin(), spec.links.end(), [&](const EdgeSpec& e) {
      return (e.between[0] == a && e.between[1] == b) || (e.between[0] == b && e.between[1] == a);
    });
    if (a != b && !own_port && !twice) spec.links.push_back({{a, b}, RandomLink()});
  }
  return spec;
}

RC_GTEST_PROP(RoutesProperty, AreAsCheapAsTheSlowSearchFinds, ()) {
  const ClusterSpec spec = RandomSpec();
  const Topology topology = ExpandTopology(spec, "random").value();
  const bool connected = CheckConnected(topology, "random").ok();
  RC_CLASSIFY(connected);
  if (!connected) return;
  const RouteTable routes(topology);
  const SlowSearch slow(topology);
  for (int from = 0; from < topology.device_count(); ++from) {
    for (int to = 0; to < topology.device_count(); ++to) {
      double cost = 0;
      for (const WireId wire : routes.Between(DeviceId{from}, DeviceId{to}).wires) {
        cost += CostOf(topology.wires[static_cast<size_t>(wire.value)]);
      }
      RC_ASSERT(std::abs(cost - slow.Cost(from, to)) < 1e-9);
    }
  }
}

}  // namespace
}  // namespace heddle
