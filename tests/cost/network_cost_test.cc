// Transfers and collectives against numbers computed by hand (in the comments: microseconds).
#include "cost/network_cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "support/places.h"

namespace heddle {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

constexpr double kMicro = 1e-6;
constexpr int64_t kMega = 1'000'000;

constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter,
                           Kind::kAllToAll, Kind::kBroadcast};
constexpr Algorithm kAlgorithms[] = {Algorithm::kRing, Algorithm::kTree, Algorithm::kHierarchical,
                                     Algorithm::kGrouped};

Cluster ClusterOf(const std::string& text) {
  const std::string preamble =
      "schema = \"heddle.cluster/1\"\n"
      "[device_type.gpu]\nflops = \"10 TFLOP/s\"\nmemory = \"16 GiB\"\n"
      "memory_bandwidth = \"900 GB/s\"\n";
  Result<Cluster> cluster = ParseClusterToml(preamble + text, "test.toml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().ToString());
  return std::move(cluster).value();
}

// One node; every pair linked by 10 GB/s and 5 us: a megabyte takes 100 us.
Cluster MeshOf(int devices) {
  return ClusterOf(
      fmt::format("[[node]]\nname = \"a\"\ndevices = [{{ type = \"gpu\", count = {} }}]\n"
                  "link = {{ bandwidth = \"10 GB/s\", latency = \"5 us\" }}\n",
                  devices));
}

// Two such nodes, linked by 1 GB/s and 20 us: a megabyte takes 1000 us.
Cluster PairOf(int devices_a, int devices_b) {
  std::string text;
  for (const auto& [name, devices] : {std::pair{"a", devices_a}, std::pair{"b", devices_b}}) {
    text += fmt::format(
        "[[node]]\nname = \"{}\"\ndevices = [{{ type = \"gpu\", count = {} }}]\n"
        "link = {{ bandwidth = \"10 GB/s\", latency = \"5 us\" }}\n",
        name, devices);
  }
  return ClusterOf(text +
                   "[[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"1 GB/s\"\n"
                   "latency = \"20 us\"\n");
}

std::vector<DeviceId> First(int count) {
  std::vector<DeviceId> group;
  for (int i = 0; i < count; ++i) group.push_back(DeviceId{i});
  return group;
}

std::vector<Bytes> Megabytes(std::initializer_list<int> numbers) {
  std::vector<Bytes> sizes;
  for (const int number : numbers) sizes.push_back(Bytes{number * kMega});
  return sizes;
}

CommCost CostOf(const Cluster& cluster, Kind kind, Algorithm algorithm,
                const std::vector<DeviceId>& group, const std::vector<Bytes>& sizes, int root = 0) {
  return NetworkCost(cluster).Collective({kind, group, sizes, algorithm, root});
}

void ExpectMicros(const CommCost& cost, double latency, double seconds) {
  EXPECT_NEAR(cost.latency.value / kMicro, latency, 1e-6);
  EXPECT_NEAR(cost.seconds.value / kMicro, seconds, 1e-6);
}

double LoadOn(const Cluster& cluster, const CommCost& cost, const std::string& wire) {
  for (const WireLoad& load : cost.loads) {
    if (cluster.wires()[static_cast<size_t>(load.wire.value)].name == wire) return load.bytes;
  }
  return 0;
}

TEST(NetworkCostTest, NamesReadBack) {
  for (const Kind kind : kKinds) EXPECT_EQ(ParseChoice<CollectiveKind>(NameOf(kind)), kind);
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_EQ(ParseChoice<CollectiveAlgorithm>(NameOf(algorithm)), algorithm);
  }
  EXPECT_FALSE(ParseChoice<CollectiveKind>("reduce").has_value());
  EXPECT_FALSE(ParseChoice<CollectiveAlgorithm>("").has_value());
}

TEST(TransferTest, LatencyPlusTheNarrowestWire) {
  const Cluster cluster = PairOf(2, 2);
  const NetworkCost network(cluster);
  ExpectMicros(network.Transfer(DeviceId{0}, DeviceId{1}, Bytes{kMega}), 5, 5 + 100);
  const CommCost across = network.Transfer(DeviceId{0}, DeviceId{3}, Bytes{kMega});
  ExpectMicros(across, 20, 20 + 1000);
  ASSERT_EQ(across.loads.size(), 1u);
  EXPECT_EQ(LoadOn(cluster, across, "a->b"), kMega);
  ExpectMicros(network.Transfer(DeviceId{0}, DeviceId{0}, Bytes{kMega}), 0, 0);
  ExpectMicros(network.Transfer(DeviceId{0}, DeviceId{1}, Bytes{0}), 0, 0);
}

TEST(TransferTest, CutsThroughSwitches) {
  const Cluster cluster = ClusterOf(R"(
[[node]]
name = "a"
devices = [{ type = "gpu" }]
[[node]]
name = "b"
devices = [{ type = "gpu" }]
[[switch]]
name = "s"
[[link]]
between = ["a", "s"]
bandwidth = "1 GB/s"
latency = "10 us"
[[link]]
between = ["s", "b"]
bandwidth = "2 GB/s"
latency = "7 us"
)");
  const CommCost cost = NetworkCost(cluster).Transfer(DeviceId{0}, DeviceId{1}, Bytes{kMega});
  ExpectMicros(cost, 17, 17 + 1000);
  EXPECT_EQ(cost.loads.size(), 2u);
}

TEST(AllReduceTest, Ring) {
  // 2 (p-1) phases of S/p: 6 (5 + 100).
  const Cluster mesh = MeshOf(4);
  const CommCost cost = CostOf(mesh, Kind::kAllReduce, Algorithm::kRing, First(4), Megabytes({4}));
  ExpectMicros(cost, 30, 630);
  EXPECT_EQ(cost.loads.size(), 4u);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, cost, "a:3->a:0"), 6.0 * kMega);
  EXPECT_EQ(LoadOn(mesh, cost, "a:0->a:3"), 0);
  // Across nodes the slowest hop sets the pace: 6 (20 + 1000).
  ExpectMicros(CostOf(PairOf(2, 2), Kind::kAllReduce, Algorithm::kRing, First(4), Megabytes({4})),
               120, 6120);
}

TEST(AllReduceTest, RingsThatCrossTheSameLinkShareIt) {
  // a:0 b:0 a:1 b:1: each phase takes the link twice in each direction. 6 (20 + 2000).
  const std::vector<DeviceId> group = {DeviceId{0}, DeviceId{2}, DeviceId{1}, DeviceId{3}};
  ExpectMicros(CostOf(PairOf(2, 2), Kind::kAllReduce, Algorithm::kRing, group, Megabytes({4})), 120,
               12120);
}

TEST(AllReduceTest, HalfDuplexCountsBothDirections) {
  // 2 (1 + 2 * 1000).
  const Cluster cluster = ClusterOf(
      "[[node]]\nname = \"a\"\ndevices = [{ type = \"gpu\", count = 2 }]\n"
      "link = { bandwidth = \"1 GB/s\", latency = \"1 us\", duplex = \"half\" }\n");
  const CommCost cost =
      CostOf(cluster, Kind::kAllReduce, Algorithm::kRing, First(2), Megabytes({2}));
  ExpectMicros(cost, 2, 4002);
  EXPECT_DOUBLE_EQ(LoadOn(cluster, cost, "a:0--a:1"), 4.0 * kMega);
}

TEST(AllReduceTest, Tree) {
  // Two rounds up, two down: 4 (5 + 400). Five members: three rounds each way.
  ExpectMicros(CostOf(MeshOf(4), Kind::kAllReduce, Algorithm::kTree, First(4), Megabytes({4})), 20,
               1620);
  ExpectMicros(CostOf(MeshOf(5), Kind::kAllReduce, Algorithm::kTree, First(5), Megabytes({4})), 30,
               2430);
}

TEST(AllReduceTest, Hierarchical) {
  // Inside 5 + 200, twice; across 2 (20 + 2 lanes * 1000).
  const Cluster cluster = PairOf(2, 2);
  const CommCost cost =
      CostOf(cluster, Kind::kAllReduce, Algorithm::kHierarchical, First(4), Megabytes({4}));
  ExpectMicros(cost, 50, 205 + 4040 + 205);
  EXPECT_DOUBLE_EQ(LoadOn(cluster, cost, "a->b"), 4.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(cluster, cost, "a:0->a:1"), 4.0 * kMega);
  // The order of the group does not matter to the levels.
  const std::vector<DeviceId> mixed = {DeviceId{0}, DeviceId{2}, DeviceId{1}, DeviceId{3}};
  ExpectMicros(CostOf(cluster, Kind::kAllReduce, Algorithm::kHierarchical, mixed, Megabytes({4})),
               50, 4450);
}

TEST(AllReduceTest, HierarchicalOverUnevenNodes) {
  // a has one member, b two: one lane, owned by a:0 and b:0. In b a ring phase of S/2 and the
  // piece of b:1 to the owner: 2 (5 + 200), and back. Across 2 (20 + 2000).
  ExpectMicros(
      CostOf(PairOf(1, 2), Kind::kAllReduce, Algorithm::kHierarchical, First(3), Megabytes({4})),
      60, 410 + 4040 + 410);
}

TEST(AllReduceTest, HierarchicalRingsOfDifferentLength) {
  // a has two members, b four; S = 8, two lanes of 4. In b members 0 and 2 own the lanes.
  //   pieces of S/4 = 2: 1 to 0, 3 to 2                        5 + 200
  //   rings: first phase a (blocks of 4) and b (of 2)          5 + 400
  //          phases two and three b alone                      2 (5 + 200)
  //   all that again on the way back; across 2 (20 + 2 lanes * 2000)
  ExpectMicros(
      CostOf(PairOf(2, 4), Kind::kAllReduce, Algorithm::kHierarchical, First(6), Megabytes({8})),
      2 * 20 + 40, 2 * (205 + 405 + 410) + 2 * 4020);
}

TEST(BlocksTest, RingPadsToTheLongest) {
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter}) {
    // (p-1) (5 + 300).
    ExpectMicros(CostOf(MeshOf(4), kind, Algorithm::kRing, First(4), Megabytes({1, 2, 3, 0})), 15,
                 915);
  }
}

TEST(BlocksTest, Tree) {
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter}) {
    // Subtrees {1} (and the empty {3}) 5 + 200, {2,3} 5 + 300; the whole 2 (5 + 600).
    ExpectMicros(CostOf(MeshOf(4), kind, Algorithm::kTree, First(4), Megabytes({1, 2, 3, 0})), 20,
                 205 + 305 + 1210);
  }
}

TEST(BlocksTest, GroupedIsTheSumPlusLatencies) {
  // Three members with blocks, three hops each: 45. The busiest hop carries all 6.
  const Cluster mesh = MeshOf(4);
  const std::vector<Bytes> sizes = Megabytes({1, 2, 3, 0});
  const CommCost gather = CostOf(mesh, Kind::kAllGather, Algorithm::kGrouped, First(4), sizes);
  ExpectMicros(gather, 45, 645);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, gather, "a:0->a:1"), 4.0 * kMega);  // all but the block of 1
  EXPECT_DOUBLE_EQ(LoadOn(mesh, gather, "a:1->a:2"), 3.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, gather, "a:2->a:3"), 6.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, gather, "a:3->a:0"), 5.0 * kMega);
  // Sums grow from 0 to 3 and go from there to their owners: four hops each.
  const CommCost scatter = CostOf(mesh, Kind::kReduceScatter, Algorithm::kGrouped, First(4), sizes);
  ExpectMicros(scatter, 60, 660);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, scatter, "a:0->a:1"), 6.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, scatter, "a:2->a:3"), 6.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, scatter, "a:3->a:0"), 1.0 * kMega);
  EXPECT_DOUBLE_EQ(LoadOn(mesh, scatter, "a:3->a:2"), 3.0 * kMega);
  // Two members exchange parts.
  const CommCost two =
      CostOf(MeshOf(2), Kind::kReduceScatter, Algorithm::kGrouped, First(2), Megabytes({3, 1}));
  ExpectMicros(two, 10, 310);
}

TEST(BlocksTest, Hierarchical) {
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter}) {
    // Lanes {a:0, b:0} and {a:1, b:1}, padded to 3 and 4: across 20 + 7000;
    // inside the lanes have 4 and 6: 5 + 600.
    ExpectMicros(
        CostOf(PairOf(2, 2), kind, Algorithm::kHierarchical, First(4), Megabytes({1, 2, 3, 4})), 25,
        7020 + 605);
    // One lane. b:1 to b:0 5 + 300; across, padded to 5, 20 + 5000; in b the half of 6 to b:1
    // 5 + 300 and a ring phase 5 + 300.
    ExpectMicros(
        CostOf(PairOf(1, 2), kind, Algorithm::kHierarchical, First(3), Megabytes({1, 2, 3})), 35,
        305 + 5020 + 305 + 305);
  }
}

TEST(BroadcastTest, ChainTreeAndHierarchy) {
  for (const int root : {0, 2}) {
    ExpectMicros(
        CostOf(MeshOf(4), Kind::kBroadcast, Algorithm::kRing, First(4), Megabytes({4}), root), 15,
        15 + 400);
    ExpectMicros(
        CostOf(MeshOf(4), Kind::kBroadcast, Algorithm::kTree, First(4), Megabytes({4}), root), 10,
        2 * 405);
  }
  // a:1 to b:0 20 + 4000; then a:1 to a:0 beside b:0 to b:1 5 + 400.
  const Cluster pair = PairOf(2, 2);
  const CommCost cost =
      CostOf(pair, Kind::kBroadcast, Algorithm::kHierarchical, First(4), Megabytes({4}), 1);
  ExpectMicros(cost, 25, 4020 + 405);
  EXPECT_DOUBLE_EQ(LoadOn(pair, cost, "a:1->a:0"), 4.0 * kMega);
  EXPECT_EQ(LoadOn(pair, cost, "a:0->a:1"), 0);
}

TEST(AllToAllTest, DirectExchange) {
  // Two rounds of 5; the busiest wire has 5. The diagonal costs nothing.
  ExpectMicros(CostOf(MeshOf(3), Kind::kAllToAll, Algorithm::kRing, First(3),
                      Megabytes({9, 1, 2, 3, 9, 0, 0, 5, 9})),
               10, 510);
  // Four pairs of 1 share the link in each direction: three rounds of 20, and 4000.
  const Cluster pair = PairOf(2, 2);
  const CommCost cost = CostOf(pair, Kind::kAllToAll, Algorithm::kRing, First(4),
                               std::vector<Bytes>(16, Bytes{kMega}));
  ExpectMicros(cost, 60, 4060);
  EXPECT_DOUBLE_EQ(LoadOn(pair, cost, "b->a"), 4.0 * kMega);
}

TEST(CollectiveTest, OneMemberOrNoBytesCostNothing) {
  const Cluster cluster = PairOf(2, 2);
  for (const Kind kind : kKinds) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const int members : {1, 4}) {
        const bool single = kind == Kind::kAllReduce || kind == Kind::kBroadcast;
        const auto entries = static_cast<size_t>(single                    ? 1
                                                 : kind == Kind::kAllToAll ? members * members
                                                                           : members);
        const std::vector<Bytes> sizes(entries, Bytes{members == 1 ? kMega : 0});
        const std::vector<DeviceId> group = First(members);
        const CollectiveRequest request{kind, group, sizes, algorithm};
        if (!NetworkCost(cluster).Supports(request)) continue;
        const CommCost cost = NetworkCost(cluster).Collective(request);
        EXPECT_EQ(cost.seconds.value, 0);
        EXPECT_EQ(cost.latency.value, 0);
        EXPECT_TRUE(cost.loads.empty());
      }
    }
  }
}

TEST(CollectiveTest, SupportsWhatExists) {
  const Cluster cluster = PairOf(2, 2);
  const NetworkCost network(cluster);
  const auto supports = [&](Kind kind, Algorithm algorithm, std::vector<DeviceId> group) {
    return network.Supports({kind, group, {}, algorithm});
  };
  for (const Kind kind : kKinds) {
    const bool exchange = kind == Kind::kAllToAll;
    const bool blocks = kind == Kind::kAllGather || kind == Kind::kReduceScatter;
    EXPECT_TRUE(supports(kind, Algorithm::kRing, First(4)));
    EXPECT_EQ(supports(kind, Algorithm::kTree, First(4)), !exchange);
    EXPECT_EQ(supports(kind, Algorithm::kGrouped, First(4)), blocks);
    EXPECT_EQ(supports(kind, Algorithm::kHierarchical, First(4)), !exchange);
    EXPECT_TRUE(!supports(kind, Algorithm::kHierarchical, First(2)));                    // one node
    EXPECT_TRUE(!supports(kind, Algorithm::kHierarchical, {DeviceId{0}, DeviceId{2}}));  // one each
  }
}

TEST(CollectiveTest, CheapestChoosesBySize) {
  const Cluster mesh = MeshOf(8);
  const Cluster pair = PairOf(4, 4);
  const std::vector<DeviceId> group = First(8);
  const auto cheapest = [&](const Cluster& cluster, Kind kind, const std::vector<Bytes>& sizes) {
    return NetworkCost(cluster).Cheapest({kind, group, sizes});
  };
  EXPECT_EQ(cheapest(mesh, Kind::kAllReduce, {Bytes{100}}), Algorithm::kTree);
  EXPECT_EQ(cheapest(mesh, Kind::kAllReduce, Megabytes({100})), Algorithm::kRing);
  EXPECT_EQ(cheapest(pair, Kind::kAllReduce, Megabytes({100})), Algorithm::kHierarchical);
  EXPECT_EQ(cheapest(mesh, Kind::kAllGather, Megabytes({80, 1, 1, 1, 1, 1, 1, 1})),
            Algorithm::kGrouped);
  EXPECT_EQ(cheapest(mesh, Kind::kAllGather, std::vector<Bytes>(8, Bytes{10 * kMega})),
            Algorithm::kRing);
  EXPECT_EQ(cheapest(mesh, Kind::kAllReduce, {Bytes{0}}), Algorithm::kRing);  // a tie
}

TEST(CollectiveTest, AThousandMembers) {
  const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/fat-tree-1024.toml").value();
  const std::vector<DeviceId> group = First(1024);
  const std::vector<Bytes> whole = Megabytes({1024});
  const CommCost ring = CostOf(cluster, Kind::kAllReduce, Algorithm::kRing, group, whole);
  const CommCost two = CostOf(cluster, Kind::kAllReduce, Algorithm::kHierarchical, group, whole);
  const CommCost tree = CostOf(cluster, Kind::kAllReduce, Algorithm::kTree, group, whole);
  EXPECT_LT(tree.latency, ring.latency);
  // Ring: 2046 phases of 1 MB over 25 GB/s, of which the longest hop takes 3 + 2 + 2 + 3 us.
  ExpectMicros(ring, 20460, 2046 * (10 + 40));
  // Two levels: 14 phases of 128 MB over 85 GB/s; 254 of 8 lanes of 1 MB over a node's 25 GB/s.
  ExpectMicros(two, 14 * 2 + 254 * 10, 14 * (2 + 128e6 / 85e3) + 254 * (10 + 320));
}

// --- properties ---

struct RandomCase {
  Kind kind;
  Algorithm algorithm;
  std::vector<DeviceId> group;
  std::vector<Bytes> sizes;
  int root = 0;

  CollectiveRequest request() const { return {kind, group, sizes, algorithm, root}; }
};

RandomCase AnyCase(const Cluster& cluster) {
  RandomCase made;
  made.kind = *rc::gen::elementOf(std::vector<Kind>(std::begin(kKinds), std::end(kKinds)));
  made.algorithm =
      *rc::gen::elementOf(std::vector<Algorithm>(std::begin(kAlgorithms), std::end(kAlgorithms)));
  const std::vector<int> picked = *rc::gen::unique<std::vector<int>>(
      *rc::gen::inRange<size_t>(1, static_cast<size_t>(cluster.device_count()) + 1),
      rc::gen::inRange(0, cluster.device_count()));
  for (const int device : picked) made.group.push_back(DeviceId{device});
  const size_t members = made.group.size();
  const bool single = made.kind == Kind::kAllReduce || made.kind == Kind::kBroadcast;
  const size_t entries = single ? 1 : made.kind == Kind::kAllToAll ? members * members : members;
  for (size_t i = 0; i < entries; ++i) {
    made.sizes.push_back(Bytes{*rc::gen::inRange<int64_t>(0, 10 * kMega)});
  }
  if (made.kind == Kind::kBroadcast) made.root = *rc::gen::inRange(0, static_cast<int>(members));
  return made;
}

const Cluster& AnyExample() {
  static const Cluster clusters[] = {
      PairOf(3, 2), MeshOf(6),
      LoadCluster(SourceDir() + "/examples/clusters/irregular.toml").value(),
      LoadCluster(SourceDir() + "/examples/clusters/slow-rack.toml").value()};
  return clusters[*rc::gen::inRange<size_t>(0, std::size(clusters))];
}

RC_GTEST_PROP(CollectiveProperty, SecondsCoverLatencyAndEveryWire, ()) {
  const Cluster& cluster = AnyExample();
  const RandomCase made = AnyCase(cluster);
  const NetworkCost network(cluster);
  RC_PRE(network.Supports(made.request()));
  const CommCost cost = network.Collective(made.request());
  RC_ASSERT(std::isfinite(cost.seconds.value));
  RC_ASSERT(cost.seconds >= cost.latency);
  WireId last;
  for (const WireLoad& load : cost.loads) {
    RC_ASSERT(load.wire > last);
    RC_ASSERT(load.bytes > 0);
    const Wire& wire = cluster.wires()[static_cast<size_t>(load.wire.value)];
    RC_ASSERT(cost.seconds.value >= load.bytes / wire.bandwidth.value);
    last = load.wire;
  }
}

RC_GTEST_PROP(CollectiveProperty, MoreBytesNeverCostLess, ()) {
  const Cluster& cluster = AnyExample();
  RandomCase made = AnyCase(cluster);
  const NetworkCost network(cluster);
  RC_PRE(network.Supports(made.request()));
  const Seconds before = network.Collective(made.request()).seconds;
  for (Bytes& size : made.sizes) size.value += *rc::gen::inRange<int64_t>(0, kMega);
  const Seconds after = network.Collective(made.request()).seconds;
  RC_ASSERT(after.value >= before.value * (1 - 1e-12));
}

// Chan et al. 2007: p members need at least ceil(log2 p) latencies, a reduction moves at least
// (p-1) S bytes in all, and so does telling everybody.
RC_GTEST_PROP(CollectiveProperty, AllReduceKeepsItsLowerBounds, ()) {
  const Cluster& cluster = AnyExample();
  RandomCase made = AnyCase(cluster);
  made.kind = Kind::kAllReduce;
  made.sizes = {Bytes{*rc::gen::inRange<int64_t>(1, 10 * kMega)}};
  made.root = 0;
  const NetworkCost network(cluster);
  RC_PRE(network.Supports(made.request()));
  const CommCost cost = network.Collective(made.request());
  const auto members = static_cast<double>(made.group.size());
  double least_latency = made.group.size() > 1 ? 1.0 : 0.0;
  for (const DeviceId from : made.group) {
    for (const DeviceId to : made.group) {
      if (from == to) continue;
      least_latency = std::min(least_latency, cluster.RouteBetween(from, to).latency.value);
    }
  }
  RC_ASSERT(cost.latency.value >= std::ceil(std::log2(members)) * least_latency * (1 - 1e-12));
  double moved = 0;
  for (const WireLoad& load : cost.loads) moved += load.bytes;
  const double least_moved = 2 * (members - 1) * static_cast<double>(made.sizes[0].value);
  RC_ASSERT(moved >= least_moved * (1 - 1e-12));
  RC_ASSERT(cost.seconds >= network
                                .Collective({Kind::kAllReduce, made.group, made.sizes,
                                             network.Cheapest(made.request())})
                                .seconds);
}

}  // namespace
}  // namespace heddle
