#include "plan/spmd/mesh.h"

#include <algorithm>

#include "program/plan/spmd_plan.h"

namespace heddle {
namespace {

void SetEvenRatios(SpmdMesh& mesh) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = mesh.places(axis);
    mesh.ratios[axis].fill(std::vector<double>(places, 1.0 / static_cast<double>(places)));
  }
}

}  // namespace

SpmdMesh FlatMesh(const Cluster& cluster) {
  SpmdMesh mesh;
  mesh.rows.emplace_back();
  for (const Node& node : cluster.nodes()) {
    mesh.rows[0].insert(mesh.rows[0].end(), node.devices.begin(), node.devices.end());
  }
  SetEvenRatios(mesh);
  return mesh;
}

bool HasNodeMesh(const Cluster& cluster) {
  const size_t size = cluster.nodes()[0].devices.size();
  return cluster.nodes().size() > 1 && size > 1 &&
         std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                     [&](const Node& node) { return node.devices.size() == size; });
}

SpmdMesh NodeMesh(const Cluster& cluster) {
  SpmdMesh mesh;
  for (const Node& node : cluster.nodes()) mesh.rows.push_back(node.devices);
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
