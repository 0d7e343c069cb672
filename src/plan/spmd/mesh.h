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

// One row of all devices, and rows by node where nodes are of equal size; even ratios.
SpmdMesh FlatMesh(const Cluster& cluster);
bool HasNodeMesh(const Cluster& cluster);
SpmdMesh NodeMesh(const Cluster& cluster);  // REQUIRES: HasNodeMesh

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
