// A cluster as a SimGrid platform: every device a host, every wire a link without latency, every
// route as the cluster says. REQUIRES: an s4u::Engine, which the platform becomes a part of.
#pragma once

#include <map>
#include <simgrid/s4u.hpp>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

class SimGridPlatform {
 public:
  // Groups: the devices that have collectives together.
  SimGridPlatform(const Cluster& cluster, const std::vector<std::vector<DeviceId>>& groups);

  simgrid::s4u::Host* host(DeviceId id) const { return devices_[static_cast<size_t>(id.value)]; }

  // Both start a flow: from device to device; or a group's over one wire at no more than `rate`,
  // one at a time (SimGrid 3.32 does not heed Comm::set_rate between hosts, so a link before the
  // wire sets the pace).
  simgrid::s4u::CommPtr Message(DeviceId from, DeviceId to, double bytes) const;
  simgrid::s4u::CommPtr OnWire(size_t group, WireId wire, double bytes, double rate) const;

 private:
  void AddSource(const Cluster& cluster, size_t group, const std::vector<DeviceId>& members);
  void AddRoute(const simgrid::s4u::Host* from, const simgrid::s4u::Host* to,
                const std::vector<simgrid::s4u::LinkInRoute>& path);

  simgrid::s4u::NetZone* zone_;
  std::vector<simgrid::s4u::Host*> devices_;
  std::vector<simgrid::s4u::Link*> links_;    // by wire
  std::vector<simgrid::s4u::Host*> arrival_;  // by wire: where flows on it alone end
  struct Source {
    simgrid::s4u::Host* host;                     // where a group's flows on single wires begin
    std::map<WireId, simgrid::s4u::Link*> paces;  // of the wires it may use
  };
  std::vector<Source> sources_;  // by group
};

}  // namespace heddle
