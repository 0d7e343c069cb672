// CheckConnected: can every device reach every other?
#include <fmt/format.h>

#include <numeric>

#include "cluster/topology.h"

namespace heddle {
namespace {

// Disjoint sets of vertices (union by size, path halving).
class Components {
 public:
  explicit Components(int count)
      : parent_(static_cast<size_t>(count)), size_(static_cast<size_t>(count), 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  int Find(int vertex) {
    while (Parent(vertex) != vertex) {
      Parent(vertex) = Parent(Parent(vertex));
      vertex = Parent(vertex);
    }
    return vertex;
  }

  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return;
    if (size_[static_cast<size_t>(a)] < size_[static_cast<size_t>(b)]) std::swap(a, b);
    Parent(b) = a;
    size_[static_cast<size_t>(a)] += size_[static_cast<size_t>(b)];
  }

 private:
  int& Parent(int vertex) { return parent_[static_cast<size_t>(vertex)]; }

  std::vector<int> parent_;
  std::vector<int> size_;
};

}  // namespace

Status CheckConnected(const Topology& topology, const std::string& file) {
  Components components(topology.vertex_count());
  for (const Topology::Link& link : topology.links) components.Join(link.a, link.b);
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const std::vector<DeviceId>& devices = topology.nodes[i].devices;
    if (topology.meshes[i].first_wire < 0) continue;
    for (const DeviceId device : devices) components.Join(devices[0].value, device.value);
  }
  for (const Node& node : topology.nodes) {
    for (const DeviceId device : node.devices) {
      if (components.Find(node.devices[0].value) == components.Find(device.value)) continue;
      return BadInput(
          fmt::format("{}: node \"{}\"", file, node.name),
          fmt::format("no links join its devices {} and {}",
                      topology.VertexName(node.devices[0].value),
                      topology.VertexName(device.value)),
          "give the node link = { bandwidth = …, latency = … }, or list [[link]]s between its "
          "devices; the node's port leads out of it, not across it");
    }
  }
  for (int i = 0; i < topology.device_count(); ++i) {
    components.Join(i, topology.PortVertex(topology.devices[static_cast<size_t>(i)].node));
  }
  for (int i = 0; i < topology.device_count(); ++i) {
    if (components.Find(0) == components.Find(i)) continue;
    return BadInput(file,
                    fmt::format("devices {} and {} cannot reach each other", topology.VertexName(0),
                                topology.VertexName(i)),
                    "add a [[link]] between their nodes, or from both to a switch");
  }
  return Ok();
}

}  // namespace heddle
