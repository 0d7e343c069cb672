// Segment cost: how long each device computes each segment of a Program it uses.
#pragma once

#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cost/op_cost.h"
#include "program/program.h"

namespace heddle {

// Seconds by device of the Program and segment; segments a device does not use are not computed.
using SegmentSeconds = std::vector<std::vector<double>>;

// `cost` may be null when every segment states its time. The devices of the Program are found in
// the cluster by name; an unknown name, or a segment without a time, is an error.
Result<SegmentSeconds> CostSegments(const Program& program, const Cluster& cluster,
                                    const OpCost* cost);

// The cluster's ids of the Program's devices.
Result<std::vector<DeviceId>> FindDevices(const Program& program, const Cluster& cluster);

}  // namespace heddle
