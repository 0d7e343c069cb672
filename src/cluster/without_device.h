// A cluster that has lost a device.
#pragma once

#include <string>

#include "base/result.h"
#include "cluster/cluster_spec.h"

namespace heddle {

// The spec without the device called `name` ("a:1"); those behind it in its node move up. A node
// without devices goes, with its links. Not possible where the file lists links of single devices
// of that node, or repeats the node by count: renumbering would change what they mean.
Result<ClusterSpec> WithoutDevice(ClusterSpec spec, const std::string& name);

}  // namespace heddle
