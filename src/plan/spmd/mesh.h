// SpmdMesh: the devices as rows of equal length, and the ratios in which each axis divides things.
//
// Axis 0 goes down the rows (between nodes), axis 1 along a row (inside a node). A flat mesh is one
// row of all devices. Samples are divided by ratio group 0, everything else by group 1: how many
// samples a device computes and how much of the weights it keeps are different questions.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "cluster/cluster.h"
#include "model/sharding.h"

namespace heddle {

inline constexpr int kRatioGroups = 2;
inline constexpr int kSampleRatios = 0;
inline constexpr int kOtherRatios = 1;

using AxisRatios = std::array<std::vector<double>, kRatioGroups>;  // each adds up to 1

struct SpmdMesh {
  std::vector<std::vector<DeviceId>> rows;
  std::array<AxisRatios, kMeshAxes> ratios;

  size_t places(size_t axis) const { return axis == 0 ? rows.size() : rows[0].size(); }
  size_t size() const { return rows.size() * rows[0].size(); }
  bool flat() const { return rows.size() == 1; }
  // Devices are numbered row by row.
  DeviceId device(size_t number) const {
    return rows[number / rows[0].size()][number % rows[0].size()];
  }
};

using NodeSet = std::vector<size_t>;  // numbers of a cluster's nodes, ascending

NodeSet AllNodes(const Cluster& cluster);
// Sets worth trying: all nodes; those of the fastest kind of device; the fastest node alone. On a
// slow network more nodes may be slower than fewer.
std::vector<NodeSet> NodeSets(const Cluster& cluster, DType dtype);

// One row of the nodes' devices, and rows by node where nodes are of equal size; even ratios.
SpmdMesh FlatMesh(const Cluster& cluster, const NodeSet& nodes);
bool HasNodeMesh(const Cluster& cluster, const NodeSet& nodes);
SpmdMesh NodeMesh(const Cluster& cluster, const NodeSet& nodes);  // REQUIRES: HasNodeMesh

inline SpmdMesh FlatMesh(const Cluster& cluster) { return FlatMesh(cluster, AllNodes(cluster)); }
inline bool HasNodeMesh(const Cluster& cluster) { return HasNodeMesh(cluster, AllNodes(cluster)); }
inline SpmdMesh NodeMesh(const Cluster& cluster) { return NodeMesh(cluster, AllNodes(cluster)); }

// Rows of so many devices, each row inside one node. Every node must be divisible into such: the
// sizes for which it is, without 1, ascending.
std::vector<size_t> GroupSizes(const Cluster& cluster);
SpmdMesh GroupMesh(const Cluster& cluster, size_t size);

inline int RatioGroupOf(char letter) { return letter == 'b' ? kSampleRatios : kOtherRatios; }

// Lengths of the parts of extents, found once each.
class ShardSizes {
 public:
  explicit ShardSizes(const SpmdMesh& mesh) : mesh_(&mesh) {}  // must outlive this

  const std::vector<int64_t>& Of(size_t axis, int group, int64_t extent);

 private:
  const SpmdMesh* mesh_;
  std::map<std::tuple<size_t, int, int64_t>, std::vector<int64_t>> sizes_;
};

}  // namespace heddle
