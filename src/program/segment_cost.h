// Segment cost: how long each device computes each segment of a Program it uses.
#pragma once

#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cost/op_cost.h"
#include "program/program.h"

namespace heddle {

// Seconds of the segments that a Program's devices use. Devices of one type share them.
class SegmentSeconds {
 public:
  double Of(int32_t device, int32_t segment) const {
    const auto type = static_cast<size_t>(types_[static_cast<size_t>(device)]);
    return seconds_[type][static_cast<size_t>(segment)];
  }

 private:
  friend Result<SegmentSeconds> CostSegments(const Program&, const Cluster&, const OpCost*);
  std::vector<int> types_;                    // by device of the Program
  std::vector<std::vector<double>> seconds_;  // by type and segment; negative: not used
};

// `cost` may be null when every segment states its time. The devices of the Program are found in
// the cluster by name; an unknown name, or a segment without a time, is an error.
Result<SegmentSeconds> CostSegments(const Program& program, const Cluster& cluster,
                                    const OpCost* cost);

// The cluster's ids of the Program's devices.
Result<std::vector<DeviceId>> FindDevices(const Program& program, const Cluster& cluster);

}  // namespace heddle
