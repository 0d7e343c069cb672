// What is executed against what is counted: the messages of every algorithm put the bytes on
// devices and wires that cost/ says.
#include "run/collective_moves.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "cluster/cluster_toml.h"

namespace heddle {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

std::vector<BlockMove> MovesOf(Kind kind, Algorithm algorithm, const std::vector<size_t>& sizes) {
  return kind == Kind::kAllGather ? AllGatherMoves(algorithm, sizes)
                                  : ReduceScatterMoves(algorithm, sizes);
}

// Nodes of `devices` each behind one switch.
Cluster Star(int nodes, int devices) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n[device_type.gpu]\nflops = \"1 TFLOP/s\"\nmemory = \"1 "
      "GiB\"\nmemory_bandwidth = \"9 GB/s\"\n[[switch]]\nname = \"s\"\n";
  for (int k = 0; k < nodes; ++k) {
    text += fmt::format(
        "[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"gpu\", count = {} }}]\nlink = {{ "
        "bandwidth = \"10 GB/s\", latency = \"5 us\" }}\n[[link]]\nbetween = [\"n{}\", "
        "\"s\"]\nbandwidth = \"{} MB/s\"\nlatency = \"20 us\"\n",
        k, devices, k, 100 + 50 * k);
  }
  return ParseClusterToml(text, "star.toml").value();
}

struct Counted {
  std::map<int32_t, double> sent, received;  // by device
  std::map<int32_t, double> wires;
};

Counted CountMoves(const Cluster& cluster, const std::vector<DeviceId>& group,
                   const std::vector<BlockMove>& moves) {
  Counted counted;
  for (const BlockMove& move : moves) {
    const auto bytes = static_cast<double>(move.sent);
    if (bytes == 0) continue;
    counted.sent[group[move.from].value] += bytes;
    counted.received[group[move.to].value] += bytes;
    for (const WireId wire : cluster.RouteBetween(group[move.from], group[move.to]).wires) {
      counted.wires[wire.value] += bytes;
    }
  }
  return counted;
}

Counted CountCost(const Cluster& cluster, const std::vector<DeviceId>& group, Kind kind,
                  Algorithm algorithm, const std::vector<size_t>& sizes) {
  std::vector<Bytes> bytes;
  for (const size_t size : sizes) bytes.push_back(Bytes{static_cast<int64_t>(size)});
  const CommCost cost = NetworkCost(cluster, true).Collective({kind, group, bytes, algorithm});
  Counted counted;
  for (const DeviceTraffic& traffic : cost.traffic) {
    if (traffic.sent > 0) counted.sent[traffic.device.value] = traffic.sent;
    if (traffic.received > 0) counted.received[traffic.device.value] = traffic.received;
  }
  for (const WireLoad& load : cost.loads) counted.wires[load.wire.value] = load.bytes;
  return counted;
}

// By hand: blocks of 8, 2 and 2.
TEST(CollectiveMovesTest, BytesOfPaddedAndGrouped) {
  const std::vector<size_t> sizes = {8, 2, 2};
  const auto sent = [&](Kind kind, Algorithm algorithm) {
    std::vector<size_t> bytes(3);
    for (const BlockMove& move : MovesOf(kind, algorithm, sizes)) bytes[move.from] += move.sent;
    return bytes;
  };
  using Vector = std::vector<size_t>;
  EXPECT_EQ(sent(Kind::kAllGather, Algorithm::kRing), (Vector{16, 16, 16}));
  EXPECT_EQ(sent(Kind::kAllGather, Algorithm::kGrouped), (Vector{10, 10, 4}));
  EXPECT_EQ(sent(Kind::kReduceScatter, Algorithm::kRing), (Vector{16, 16, 16}));
  EXPECT_EQ(sent(Kind::kReduceScatter, Algorithm::kGrouped), (Vector{12, 12, 10}));
}

RC_GTEST_PROP(CollectiveMovesProperty, BytesAreThoseThatCostCounts, ()) {
  const int nodes = *rc::gen::inRange(1, 7), each = *rc::gen::inRange(1, 4);
  const Cluster cluster = Star(nodes, each);
  const Kind kind = *rc::gen::element(Kind::kAllGather, Kind::kReduceScatter);
  const Algorithm algorithm = *rc::gen::element(Algorithm::kRing, Algorithm::kGrouped);
  std::vector<DeviceId> group;
  for (int d = 0; d < cluster.device_count(); ++d) group.push_back(DeviceId{d});
  std::vector<size_t> sizes;
  for (size_t k = 0; k < group.size(); ++k) {
    sizes.push_back(*rc::gen::element<size_t>(0, 8, 4096, 100'000, 3'000'000));
  }
  const Counted moved = CountMoves(cluster, group, MovesOf(kind, algorithm, sizes));
  const Counted cost = CountCost(cluster, group, kind, algorithm, sizes);
  RC_ASSERT(moved.sent == cost.sent);
  RC_ASSERT(moved.received == cost.received);
  // Parts that are added at their owner, for bits that do not depend on the algorithm, take the
  // direct way; cost/ counts a ring. Between nodes of one device both are the same.
  if (each == 1 || kind == Kind::kAllGather || algorithm == Algorithm::kGrouped) {
    RC_ASSERT(moved.wires == cost.wires);
  }
}

// Nobody sends what has not come to it before, everyone gets everything once, and a sum contains
// every part once, in the order of ranks.
RC_GTEST_PROP(CollectiveMovesProperty, EveryoneHasWhatItSends, ()) {
  const auto members = *rc::gen::inRange<size_t>(1, 9);
  const Kind kind = *rc::gen::element(Kind::kAllGather, Kind::kReduceScatter);
  const Algorithm algorithm = *rc::gen::element(Algorithm::kRing, Algorithm::kTree,
                                                Algorithm::kHierarchical, Algorithm::kGrouped);
  std::vector<size_t> sizes;
  for (size_t k = 0; k < members; ++k) {
    sizes.push_back(*rc::gen::element<size_t>(0, 64, 40'000, 700'000));
  }
  // By rank, block and begin: the parts in it, in the order added.
  std::map<std::tuple<size_t, size_t, size_t>, std::vector<size_t>> have;
  std::map<std::pair<size_t, size_t>, size_t> got;  // bytes by rank and block
  for (const BlockMove& move : MovesOf(kind, algorithm, sizes)) {
    RC_ASSERT(move.from != move.to);
    RC_ASSERT(move.begin + move.bytes <= sizes[move.block]);
    RC_ASSERT(move.sent >= move.bytes);
    const auto held = have.find({move.from, move.block, move.begin});
    const bool own = kind == Kind::kReduceScatter || move.block == move.from;
    RC_ASSERT(own || held != have.end());
    std::vector<size_t> parts = held != have.end() ? held->second : std::vector{move.from};
    if (move.adds) parts.push_back(move.to);
    have[{move.to, move.block, move.begin}] = parts;
    if (kind == Kind::kAllGather || move.block == move.to) {
      got[{move.to, move.block}] += move.bytes;
    }
    const bool last = kind == Kind::kReduceScatter && GoesInPieces(algorithm) &&
                      move.to == move.block && parts.size() == members;
    if (last && members > 2) {
      std::vector<size_t> in_order(members);
      std::iota(in_order.begin(), in_order.end(), 0);
      RC_ASSERT(parts == in_order);
    }
  }
  for (size_t rank = 0; rank < members && kind == Kind::kAllGather; ++rank) {
    for (size_t block = 0; block < members; ++block) {
      if (block != rank) RC_ASSERT((got[{rank, block}] == sizes[block]));
    }
  }
}

}  // namespace
}  // namespace heddle
