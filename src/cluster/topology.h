// Topology: a ClusterSpec with its counts and patterns written out, as a graph.
//
//   HEDDLE_ASSIGN(Topology topology, ExpandTopology(spec, "lab.toml"));
//   HEDDLE_RETURN_IF_ERROR(CheckConnected(topology, "lab.toml"));
//
// Vertices are numbered: devices, then the ports of the nodes, then switches, each in the order
// of the file. Edges are the wires of `links` (listed) and `meshes` (link = … inside a node).
// A device reaches its node's port without a wire; routes.h says when a route may do so.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

struct Topology {
  // One link between every pair of devices of a node: its wires follow each other in the order
  // (0,1) (0,2) … (1,2) …, with full duplex each direction i->j before j->i, where i < j.
  struct Mesh {
    int first_wire = -1;  // negative: the node has no mesh
    bool half_duplex = false;
  };
  struct Link {
    int a = 0;  // vertices
    int b = 0;
    WireId forward;   // a -> b
    WireId backward;  // b -> a; the same wire when half duplex
  };

  std::vector<Node> nodes;
  std::vector<Device> devices;
  std::vector<std::string> switches;
  std::vector<Wire> wires;
  std::vector<Mesh> meshes;  // one per node
  std::vector<Link> links;

  int device_count() const { return static_cast<int>(devices.size()); }
  int node_count() const { return static_cast<int>(nodes.size()); }
  int vertex_count() const {
    return device_count() + node_count() + static_cast<int>(switches.size());
  }
  int PortVertex(int node) const { return device_count() + node; }
  int SwitchVertex(int index) const { return device_count() + node_count() + index; }
  bool IsDevice(int vertex) const { return vertex < device_count(); }
  const Node& NodeOfDevice(int vertex) const;  // REQUIRES: IsDevice(vertex)
  std::string VertexName(int vertex) const;

  // The wire of a node's mesh from its device `from` to its device `to` (ranks inside the node).
  // REQUIRES: the node has a mesh; from != to.
  WireId MeshWire(int node, int from, int to) const;
};

// REQUIRES: CheckClusterSpec passes.
Result<Topology> ExpandTopology(const ClusterSpec& spec, const std::string& file);

// The devices of each node must be joined by wires (its port is a way out, not a way across),
// and all devices by wires and ports.
Status CheckConnected(const Topology& topology, const std::string& file);

}  // namespace heddle
