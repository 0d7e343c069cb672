// Device order (RDO): devices in a line such that neighbours are well connected.
//
// The graph whose vertices are devices, and whose weights are the bottleneck bandwidths of their
// routes, is parted at its global minimum cut (Stoer, Wagner 1997), the two sides are ordered in
// the same way, and joined so that the strongest link meets at the seam:
//
//   {a0 a1 | b0 b1}  ->  a1 a0 + b0 b1   where a0 and b0 have the best link across
//
// Devices of one node come as one where the cluster is large.
#pragma once

#include <functional>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

// An order of 0..count-1. Ties go to the lower number.
std::vector<int> OrderByMinimumCuts(int count, const std::function<double(int, int)>& bandwidth);

// Orders worth trying, without repetition: by minimum cuts; as the file lists them; and, for
// unequal devices, with faster nodes first and faster devices first within a node, each also
// backwards. `speed` by device.
std::vector<std::vector<int>> DeviceOrders(const Cluster& cluster,
                                           const std::vector<double>& speed);

}  // namespace heddle
