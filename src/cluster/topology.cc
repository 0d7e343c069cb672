#include "cluster/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "cluster/link_ends.h"

namespace heddle {
namespace {

class Expansion {
 public:
  Expansion(const ClusterSpec& spec, const std::string& file) : spec_(spec), file_(file) {}

  Result<Topology> Run() {
    AddVertices();
    HEDDLE_RETURN_IF_ERROR(AddMeshes());
    HEDDLE_RETURN_IF_ERROR(AddLinks());
    return std::move(topology_);
  }

 private:
  void AddVertices() {
    std::unordered_map<std::string, int> types;
    for (const DeviceTypeSpec& type : spec_.types) {
      types.emplace(type.name, static_cast<int>(types.size()));
    }
    for (const NodeSpec& node : spec_.nodes) {
      for (int copy = 0; copy < node.count.value_or(1); ++copy) AddNode(node, copy, types);
    }
    for (const SwitchSpec& entry : spec_.switches) {
      for (int copy = 0; copy < entry.count.value_or(1); ++copy) {
        topology_.switches.push_back(CopyName(entry.name, entry.count, copy));
      }
    }
  }

  void AddNode(const NodeSpec& spec, int copy, const std::unordered_map<std::string, int>& types) {
    const int index = topology_.node_count();
    Node& node = topology_.nodes.emplace_back();
    node.name = CopyName(spec.name, spec.count, copy);
    for (const NodeSpec::Devices& devices : spec.devices) {
      for (int i = 0; i < devices.count; ++i) {
        std::string name = fmt::format("{}:{}", node.name, node.devices.size());
        node.devices.push_back(DeviceId{topology_.device_count()});
        topology_.devices.push_back({std::move(name), types.at(devices.type), index});
      }
    }
  }

  Status AddMeshes() {
    topology_.meshes.resize(topology_.nodes.size());
    size_t index = 0;
    for (size_t spec_index = 0; spec_index < spec_.nodes.size(); ++spec_index) {
      const NodeSpec& spec = spec_.nodes[spec_index];
      const std::string where = fmt::format("{}: node[{}].link", file_, spec_index);
      for (int copy = 0; copy < spec.count.value_or(1); ++copy, ++index) {
        if (spec.link) HEDDLE_RETURN_IF_ERROR(AddMesh(index, *spec.link, where));
      }
    }
    return Ok();
  }

  Status AddMesh(size_t index, const LinkSpec& link, const std::string& where) {
    const std::vector<DeviceId>& members = topology_.nodes[index].devices;
    const size_t pairs = members.size() * (members.size() - 1) / 2;
    HEDDLE_RETURN_IF_ERROR(MakeRoom(pairs, link, where));
    topology_.meshes[index] = {static_cast<int>(topology_.wires.size()), link.half_duplex};
    for (size_t i = 0; i < members.size(); ++i) {
      for (size_t j = i + 1; j < members.size(); ++j) {
        AddWires(members[i].value, members[j].value, link);
      }
    }
    return Ok();
  }

  Status AddLinks() {
    const LinkEnds ends(spec_, topology_);
    std::unordered_set<int64_t> seen;
    for (size_t i = 0; i < spec_.links.size(); ++i) {
      const EdgeSpec& edge = spec_.links[i];
      const std::string where = fmt::format("{}: link[{}].between", file_, i);
      HEDDLE_ASSIGN(const auto pairs, ends.Pairs(edge, where));
      if (topology_.links.size() + pairs.size() > size_t{kMostLinks}) {
        return BadInput(where, fmt::format("more than {} links in all", GroupDigits(kMostLinks)),
                        "give smaller counts");
      }
      HEDDLE_RETURN_IF_ERROR(MakeRoom(pairs.size(), edge.link, where));
      for (const auto& [a, b] : pairs) {
        HEDDLE_RETURN_IF_ERROR(CheckPair(a, b, where));
        const int64_t key = int64_t{std::min(a, b)} << 32 | std::max(a, b);
        if (!seen.insert(key).second) {
          return BadInput(where,
                          fmt::format("a second link between {} and {}", topology_.VertexName(a),
                                      topology_.VertexName(b)),
                          "a route takes one link: give one of them the bandwidth of both");
        }
        topology_.links.push_back(AddWires(a, b, edge.link));
      }
    }
    return Ok();
  }

  Status CheckPair(int a, int b, const std::string& where) const {
    if (a == b) {
      return BadInput(where, fmt::format("links {} to itself", topology_.VertexName(a)),
                      "to join all copies of a node, link each to a switch");
    }
    const int device = std::min(a, b);
    if (!topology_.IsDevice(device)) return Ok();
    const int own_node = topology_.devices[static_cast<size_t>(device)].node;
    if (std::max(a, b) != topology_.PortVertex(own_node)) return Ok();
    return BadInput(
        where, fmt::format("links {} to the port of its own node", topology_.VertexName(device)),
        "devices reach their node's port without a link; leave it out");
  }

  // For the wires of so many links, within the limit.
  Status MakeRoom(size_t links, const LinkSpec& link, const std::string& where) {
    const size_t wires = topology_.wires.size() + links * (link.half_duplex ? 1 : 2);
    if (wires > size_t{kMostWires}) {
      return BadInput(where,
                      fmt::format("more than {} wires in all (two for each full-duplex link)",
                                  GroupDigits(kMostWires)),
                      "give smaller counts, or join devices by a switch");
    }
    const size_t room = topology_.wires.capacity();
    if (wires > room) topology_.wires.reserve(std::max(wires, room + room / 2));
    return Ok();
  }

  Topology::Link AddWires(int a, int b, const LinkSpec& link) {
    const std::string left = topology_.VertexName(a);
    const std::string right = topology_.VertexName(b);
    const WireId forward{static_cast<int32_t>(topology_.wires.size())};
    if (link.half_duplex) {
      topology_.wires.push_back({left + "--" + right, link.bandwidth, link.latency});
      return {a, b, forward, forward};
    }
    topology_.wires.push_back({left + "->" + right, link.bandwidth, link.latency});
    topology_.wires.push_back({right + "->" + left, link.bandwidth, link.latency});
    return {a, b, forward, WireId{forward.value + 1}};
  }

  static std::string CopyName(const std::string& name, std::optional<int> count, int copy) {
    return count ? fmt::format("{}{}", name, copy) : name;
  }

  const ClusterSpec& spec_;
  const std::string& file_;
  Topology topology_;
};

}  // namespace

const Node& Topology::NodeOfDevice(int vertex) const {
  HEDDLE_CHECK(IsDevice(vertex));
  return nodes[static_cast<size_t>(devices[static_cast<size_t>(vertex)].node)];
}

std::string Topology::VertexName(int vertex) const {
  if (IsDevice(vertex)) return devices[static_cast<size_t>(vertex)].name;
  const int node = vertex - device_count();
  if (node < node_count()) return nodes[static_cast<size_t>(node)].name;
  return switches[static_cast<size_t>(node - node_count())];
}

WireId Topology::MeshWire(int node, int from, int to) const {
  const Mesh& mesh = meshes[static_cast<size_t>(node)];
  HEDDLE_CHECK(mesh.first_wire >= 0 && from != to);
  const int size = static_cast<int>(nodes[static_cast<size_t>(node)].devices.size());
  const int i = std::min(from, to);
  const int j = std::max(from, to);
  const int pair = i * size - i * (i + 1) / 2 + (j - i - 1);
  if (mesh.half_duplex) return WireId{mesh.first_wire + pair};
  return WireId{mesh.first_wire + 2 * pair + (from < to ? 0 : 1)};
}

Result<Topology> ExpandTopology(const ClusterSpec& spec, const std::string& file) {
  return Expansion(spec, file).Run();
}

}  // namespace heddle
