#include "cluster/this_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cluster/device_catalogue.h"

namespace heddle {

Result<ClusterSpec> MachineOf(int cores, Bytes memory) {
  const CatalogueDevice* core = FindDevice("cpu-core");
  ClusterSpec spec;
  spec.types.push_back(core->type);
  spec.types[0].memory = memory / cores;
  NodeSpec& node = spec.nodes.emplace_back();
  node.name = "here";
  node.devices = {{core->name, cores}};
  if (cores > 1) JoinBySwitch(FindLink(core->pcie)->link, spec.nodes[0], spec);
  HEDDLE_RETURN_IF_ERROR(CheckClusterSpec(spec, "here"));
  return spec;
}

Result<ClusterSpec> ThisMachine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return BadInput("here", "the system does not say which cores there are", std::strerror(errno));
  }
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) {
    return BadInput("here", "the system does not say how much memory there is");
  }
  const int cores = std::min(CPU_COUNT(&allowed), kMostDevicesInNode);
  return MachineOf(cores, Bytes{pages * page});
}

}  // namespace heddle
