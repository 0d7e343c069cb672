#include "plan/spmd/mesh.h"

#include <algorithm>
#include <numeric>

#include "program/plan/spmd_plan.h"

namespace heddle {
namespace {

void SetEvenRatios(SpmdMesh& mesh) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = mesh.places(axis);
    mesh.ratios[axis].fill(std::vector<double>(places, 1.0 / static_cast<double>(places)));
  }
}

double SpeedOf(const Cluster& cluster, const Node& node, DType dtype) {
  double speed = 0;
  for (const DeviceId device : node.devices) speed += cluster.type_of(device).rate(dtype).value;
  return speed;
}

}  // namespace

NodeSet AllNodes(const Cluster& cluster) {
  NodeSet nodes(cluster.nodes().size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

std::vector<NodeSet> NodeSets(const Cluster& cluster, DType dtype) {
  const std::vector<Node>& nodes = cluster.nodes();
  std::vector<double> whole, single;
  for (const Node& node : nodes) {
    whole.push_back(SpeedOf(cluster, node, dtype));
    single.push_back(whole.back() / static_cast<double>(node.devices.size()));
  }
  const auto fastest = std::max_element(whole.begin(), whole.end()) - whole.begin();
  const double most = *std::max_element(single.begin(), single.end());
  NodeSet alike;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (single[k] == most) alike.push_back(k);
  }
  std::vector<NodeSet> sets = {AllNodes(cluster)};
  for (NodeSet set : {alike, NodeSet{static_cast<size_t>(fastest)}}) {
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
  }
  return sets;
}

SpmdMesh FlatMesh(const Cluster& cluster, const NodeSet& nodes) {
  SpmdMesh mesh;
  mesh.rows.emplace_back();
  for (const size_t k : nodes) {
    const std::vector<DeviceId>& devices = cluster.nodes()[k].devices;
    mesh.rows[0].insert(mesh.rows[0].end(), devices.begin(), devices.end());
  }
  SetEvenRatios(mesh);
  return mesh;
}

bool HasNodeMesh(const Cluster& cluster, const NodeSet& nodes) {
  const size_t size = cluster.nodes()[nodes[0]].devices.size();
  return nodes.size() > 1 && size > 1 && std::all_of(nodes.begin(), nodes.end(), [&](size_t k) {
           return cluster.nodes()[k].devices.size() == size;
         });
}

SpmdMesh NodeMesh(const Cluster& cluster, const NodeSet& nodes) {
  SpmdMesh mesh;
  for (const size_t k : nodes) mesh.rows.push_back(cluster.nodes()[k].devices);
  SetEvenRatios(mesh);
  return mesh;
}

std::vector<size_t> GroupSizes(const Cluster& cluster) {
  size_t common = 0;
  for (const Node& node : cluster.nodes()) common = std::gcd(common, node.devices.size());
  std::vector<size_t> sizes;
  for (size_t size = 2; size <= common; ++size) {
    if (common % size == 0) sizes.push_back(size);
  }
  return sizes;
}

SpmdMesh GroupMesh(const Cluster& cluster, size_t size) {
  SpmdMesh mesh;
  for (const Node& node : cluster.nodes()) {
    for (size_t first = 0; first < node.devices.size(); first += size) {
      const auto begin = node.devices.begin() + static_cast<std::ptrdiff_t>(first);
      mesh.rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
  }
  SetEvenRatios(mesh);
  return mesh;
}

const std::vector<int64_t>& ShardSizes::Of(size_t axis, int group, int64_t extent) {
  const auto [found, fresh] = sizes_.try_emplace({axis, group, extent});
  if (fresh) {
    const auto& ratios = mesh_->ratios[axis][static_cast<size_t>(group)];
    for (const Range& range : ShardRanges(extent, ratios)) found->second.push_back(range.size());
  }
  return found->second;
}

}  // namespace heddle
