#include "cluster/routes.h"

#include <algorithm>
#include <limits>

namespace heddle {

RouteTable::RouteTable(const Topology& topology)
    : topology_(topology), graph_(topology), nowhere_(Along({})) {}

const Route& RouteTable::Between(DeviceId from, DeviceId to) const {
  if (from == to) return nowhere_;
  const Device& sender = topology_.devices[static_cast<size_t>(from.value)];
  const Device& receiver = topology_.devices[static_cast<size_t>(to.value)];
  const bool same_node = sender.node == receiver.node;
  const int source = same_node ? from.value : graph_.SourceOf(from);
  const int target = same_node ? to.value : graph_.TargetOf(to);
  const int64_t key = int64_t{source} << 32 | target;

  Shard& shard = shards_[static_cast<size_t>(source) % kShards];
  const std::lock_guard lock(shard.mutex);
  if (const auto found = shard.routes.find(key); found != shard.routes.end()) {
    return found->second;
  }
  Route route =
      same_node ? FindInsideNode(shard, from, to) : FindAcrossNodes(shard, source, target);
  return shard.routes.emplace(key, std::move(route)).first->second;
}

Route RouteTable::FindInsideNode(Shard& shard, DeviceId from, DeviceId to) const {
  const Device& sender = topology_.devices[static_cast<size_t>(from.value)];
  if (graph_.IsPlain(sender.node)) {
    // Nothing but the mesh, all of whose links are alike: the direct one is the cheapest.
    const int first = topology_.NodeOfDevice(from.value).devices[0].value;
    return Along({topology_.MeshWire(sender.node, from.value - first, to.value - first)});
  }
  const RouteGraph::Tree& own = TreeFrom(shard, from.value, Scope::kOwnNode);
  if (own[static_cast<size_t>(to.value)].previous >= 0) return FollowTree(own, to.value);
  return FollowTree(TreeFrom(shard, from.value, Scope::kWires), to.value);
}

Route RouteTable::FindAcrossNodes(Shard& shard, int source, int target) const {
  return FollowTree(TreeFrom(shard, source, Scope::kAll), target);
}

// Trees can be found again, so a shard that has many starts anew.
const RouteGraph::Tree& RouteTable::TreeFrom(Shard& shard, int source, Scope scope) const {
  const auto key = std::pair(source, scope);
  if (const auto found = shard.trees.find(key); found != shard.trees.end()) return found->second;
  RouteGraph::Tree tree = graph_.Search(source, scope);
  if (shard.steps + tree.size() > kMostSteps) {
    shard.trees.clear();
    shard.steps = 0;
  }
  shard.steps += tree.size();
  return shard.trees.emplace(key, std::move(tree)).first->second;
}

Route RouteTable::FollowTree(const RouteGraph::Tree& tree, int target) const {
  HEDDLE_CHECK(tree[static_cast<size_t>(target)].previous >= 0);  // connected
  std::vector<WireId> wires;
  for (int at = target; tree[static_cast<size_t>(at)].previous >= 0;
       at = tree[static_cast<size_t>(at)].previous) {
    const WireId wire = tree[static_cast<size_t>(at)].wire;
    if (wire.valid()) wires.push_back(wire);
  }
  std::reverse(wires.begin(), wires.end());
  return Along(std::move(wires));
}

Route RouteTable::Along(std::vector<WireId> wires) const {
  Route route{{}, Seconds{0}, Bandwidth{std::numeric_limits<double>::infinity()}};
  for (const WireId id : wires) {
    const Wire& wire = topology_.wires[static_cast<size_t>(id.value)];
    route.latency += wire.latency;
    route.bandwidth = std::min(route.bandwidth, wire.bandwidth);
  }
  route.wires = std::move(wires);
  return route;
}

}  // namespace heddle
