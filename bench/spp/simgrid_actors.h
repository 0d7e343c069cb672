// The actors that walk a Program in SimGrid: one per device, one per pair of devices that exchange
// messages, one per group that has collectives.
#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "program/program.h"
#include "program/segment_cost.h"

namespace heddle {

// When each of the body's repetitions ended on its last device. `ids` are the Program's devices in
// the cluster. Makes the process's one SimGrid engine: call it once. A Program that cannot go on
// ends the process.
std::vector<double> RunInSimGrid(const Program& program, const std::vector<DeviceId>& ids,
                                 const Cluster& cluster, const SegmentSeconds& seconds,
                                 int repetitions);

}  // namespace heddle
