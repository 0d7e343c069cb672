#include "spp/simgrid_platform.h"

#include <fmt/format.h>

#include <cmath>

namespace heddle {

namespace s4u = simgrid::s4u;

namespace {

uint64_t Whole(double bytes) { return static_cast<uint64_t>(std::llround(bytes)); }

}  // namespace

SimGridPlatform::SimGridPlatform(const Cluster& cluster,
                                 const std::vector<std::vector<DeviceId>>& groups)
    : zone_(s4u::create_full_zone("cluster")) {
  for (const Device& device : cluster.devices()) {
    devices_.push_back(zone_->create_host(device.name, 1e9));
  }
  for (size_t w = 0; w < cluster.wires().size(); ++w) {
    s4u::Link* link =
        zone_->create_link(fmt::format("wire {}", w), cluster.wires()[w].bandwidth.value);
    link->set_latency(0)->seal();
    links_.push_back(link);
    arrival_.push_back(zone_->create_host(fmt::format("end of wire {}", w), 1e9));
  }
  for (int from = 0; from < cluster.device_count(); ++from) {
    for (int to = 0; to < cluster.device_count(); ++to) {
      if (from == to) continue;
      std::vector<s4u::LinkInRoute> path;
      for (const WireId wire : cluster.RouteBetween(DeviceId{from}, DeviceId{to}).wires) {
        path.emplace_back(links_[static_cast<size_t>(wire.value)]);
      }
      AddRoute(host(DeviceId{from}), host(DeviceId{to}), path);
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) AddSource(cluster, g, groups[g]);
  zone_->seal();
}

void SimGridPlatform::AddSource(const Cluster& cluster, size_t group,
                                const std::vector<DeviceId>& members) {
  Source& source = sources_.emplace_back();
  source.host = zone_->create_host(fmt::format("group {}", group), 1e9);
  for (const DeviceId from : members) {
    for (const DeviceId to : members) {
      if (from == to) continue;
      for (const WireId wire : cluster.RouteBetween(from, to).wires) {
        if (source.paces.contains(wire)) continue;
        s4u::Link* pace = zone_->create_link(fmt::format("pace {} {}", group, wire.value), 1e9);
        pace->set_latency(0)->seal();
        source.paces[wire] = pace;
        const auto w = static_cast<size_t>(wire.value);
        AddRoute(source.host, arrival_[w], {s4u::LinkInRoute(pace), s4u::LinkInRoute(links_[w])});
      }
    }
  }
}

s4u::CommPtr SimGridPlatform::Message(DeviceId from, DeviceId to, double bytes) const {
  return s4u::Comm::sendto_async(host(from), host(to), Whole(bytes));
}

s4u::CommPtr SimGridPlatform::OnWire(size_t group, WireId wire, double bytes, double rate) const {
  const Source& source = sources_[group];
  source.paces.at(wire)->set_bandwidth(rate);
  s4u::Host* end = arrival_[static_cast<size_t>(wire.value)];
  return s4u::Comm::sendto_async(source.host, end, Whole(bytes));
}

void SimGridPlatform::AddRoute(const s4u::Host* from, const s4u::Host* to,
                               const std::vector<s4u::LinkInRoute>& path) {
  zone_->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, path, false);
}

}  // namespace heddle
