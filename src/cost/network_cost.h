// Network cost: how long a transfer or a collective takes alone on the cluster, and how many
// bytes it puts on which wire, so that a simulator can let several compete.
//
//   NetworkCost network(cluster);
//   CommCost c = network.Transfer(a, b, Bytes{1 << 20});
//   CommCost r = network.Collective({CollectiveKind::kAllReduce, group, sizes, algorithm});
//
// Model: alpha-beta with cut-through routes. A phase in which every member sends at once takes
//   alpha + max over wires (bytes on the wire / bandwidth of the wire)
// and a collective is a sum of phases (Thakur, Rabenseifner, Gropp 2005; Chan et al. 2007).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
};

// kRing is also the padded form for uneven sizes: every block is as long as the longest. For
// broadcast it is a pipelined chain from the root, for all-to-all the direct exchange.
// kTree: binomial; not for all-to-all.
// kHierarchical: inside the nodes and across them; not for all-to-all.
// kGrouped: one pipelined broadcast (or reduction) per member of exactly its own size; for
// all-gather and reduce-scatter only.
enum class CollectiveAlgorithm : uint8_t { kRing, kTree, kHierarchical, kGrouped };

template <>
struct Choices<CollectiveKind> {
  static constexpr Choice<CollectiveKind> kTable[] = {
      {CollectiveKind::kAllReduce, "all-reduce"},
      {CollectiveKind::kAllGather, "all-gather"},
      {CollectiveKind::kReduceScatter, "reduce-scatter"},
      {CollectiveKind::kAllToAll, "all-to-all"},
      {CollectiveKind::kBroadcast, "broadcast"}};
};
template <>
struct Choices<CollectiveAlgorithm> {
  static constexpr Choice<CollectiveAlgorithm> kTable[] = {
      {CollectiveAlgorithm::kRing, "ring"},
      {CollectiveAlgorithm::kTree, "tree"},
      {CollectiveAlgorithm::kHierarchical, "hierarchical"},
      {CollectiveAlgorithm::kGrouped, "grouped"}};
};

struct WireLoad {
  WireId wire;
  double bytes = 0;
};

// What a device sends and receives, parts that it passes on included.
struct DeviceTraffic {
  DeviceId device;
  double sent = 0, received = 0;  // bytes
};

struct CommCost {
  Seconds latency;                     // the part that does not depend on bandwidth
  Seconds seconds;                     // in all, when nothing else uses the network
  std::vector<WireLoad> loads;         // each wire once, in order of id
  std::vector<DeviceTraffic> traffic;  // each device once, in order of id; where it is counted
};

struct CollectiveRequest {
  CollectiveKind kind;
  std::span<const DeviceId> group;  // in rank order; the ring follows it
  // all-reduce, broadcast: one entry, the bytes of the whole buffer.
  // all-gather, reduce-scatter: bytes of each member's block, one per member, zeros allowed.
  // all-to-all: a row-major matrix, entry [i * n + j] = bytes from member i to member j.
  std::span<const Bytes> sizes;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  int root = 0;  // rank inside the group, for broadcast
};

// Bytes that one of `members` sends and receives in a collective over `bytes` in all.
double BytesMoved(CollectiveKind kind, size_t members, double bytes);

class NetworkCost {
 public:
  // Traffic by device is counted only where somebody wants to know: searches do not.
  explicit NetworkCost(const Cluster& cluster, bool counts_traffic = false)
      : cluster_(&cluster), counts_traffic_(counts_traffic) {}

  CommCost Transfer(DeviceId from, DeviceId to, Bytes bytes) const;
  CommCost Collective(const CollectiveRequest& request) const;

  // Whether the algorithm exists for the kind (kHierarchical wants at least two nodes and two
  // members on one of them; the others accept any group).
  bool Supports(const CollectiveRequest& request) const;

  // The cheapest supported algorithm; ties go to the first in the enum.
  CollectiveAlgorithm Cheapest(CollectiveRequest request) const;

  const Cluster& cluster() const { return *cluster_; }

 private:
  const Cluster* cluster_;
  bool counts_traffic_;
};

}  // namespace heddle
