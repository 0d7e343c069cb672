// This machine as a cluster: a device for every core that this process may use, with its part of
// the memory.
//
//   HEDDLE_ASSIGN(ClusterSpec spec, ThisMachine());   // node "here", devices here:0, here:1, …
//
// Rates are those of the catalogue's cpu-core: `heddle profile --cluster` measures the real ones.
#pragma once

#include "base/result.h"
#include "cluster/cluster_spec.h"

namespace heddle {

Result<ClusterSpec> ThisMachine();

// The same of so many cores and so much memory.
Result<ClusterSpec> MachineOf(int cores, Bytes memory);

}  // namespace heddle
