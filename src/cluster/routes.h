// RouteTable: the cheapest routes of a Topology (route_graph.h), found on demand and kept.
//
// Between devices of one node a route stays on wires between that node's devices where these
// join the two, and otherwise takes wires only, no ports. Safe to use from several threads:
// routes are kept by source in a few shards, each with its lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cluster/route_graph.h"

namespace heddle {

class RouteTable {
 public:
  explicit RouteTable(const Topology& topology);  // `topology` must outlive this, unchanged

  // The reference stays valid as long as this. REQUIRES: CheckConnected passes.
  const Route& Between(DeviceId from, DeviceId to) const;

 private:
  using Scope = RouteGraph::Scope;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<int64_t, Route> routes;  // by source and target vertex
    std::map<std::pair<int, Scope>, RouteGraph::Tree> trees;
    size_t steps = 0;  // of all trees
  };
  static constexpr size_t kShards = 64;
  static constexpr size_t kMostSteps = 1 << 17;  // of a shard: 64 MiB of trees in all

  Route FindInsideNode(Shard& shard, DeviceId from, DeviceId to) const;
  Route FindAcrossNodes(Shard& shard, int source, int target) const;
  const RouteGraph::Tree& TreeFrom(Shard& shard, int source, Scope scope) const;
  Route FollowTree(const RouteGraph::Tree& tree, int target) const;
  Route Along(std::vector<WireId> wires) const;

  const Topology& topology_;
  RouteGraph graph_;
  Route nowhere_;  // from a device to itself
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace heddle
