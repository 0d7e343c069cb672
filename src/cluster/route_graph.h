// RouteGraph: what routes may do, as a directed graph, and the search for the cheapest paths.
//
// Cost of a wire: latency + 1 MiB / bandwidth. A route may pass through switches, through the
// ports of other nodes and through devices with wires of their own. It may leave its node by the
// port and enter the other's by the port, both without a wire; but it never goes from a device
// by the port to a device of the same node. To say so each port is two vertices:
//
//        device ──► port out ──► wires            (device to port and port to device are free
//        wires ───► port in ───► device            edges: no wire, no cost)
//                      └───────► wires            (passing by)
//
// Most nodes are plain: none of their devices has a listed link. All devices of a plain node
// share its port's routes, and none can be passed through, so the graph leaves them out: 128
// nodes of 8 devices are 128 ports in and 128 out instead of 1024 devices.
#pragma once

#include <utility>
#include <vector>

#include "cluster/topology.h"

namespace heddle {

class RouteGraph {
 public:
  // Which edges a search may take.
  enum class Scope {
    kOwnNode,  // wires between devices of the source's node
    kWires,    // all wires, no free edges
    kAll,
  };
  // How the cheapest path from the source comes to a vertex; previous < 0 where none does, and
  // at the source.
  struct Step {
    int previous = -1;
    WireId wire;  // not valid: a free edge
  };
  using Tree = std::vector<Step>;

  explicit RouteGraph(const Topology& topology);  // `topology` must outlive this, unchanged

  bool IsPlain(int node) const { return plain_[static_cast<size_t>(node)]; }

  // Where paths to other nodes start from a device, and where those from other nodes end.
  int SourceOf(DeviceId device) const;
  int TargetOf(DeviceId device) const;

  // Dijkstra. Of equally cheap paths it takes the one through the earlier vertex.
  Tree Search(int source, Scope scope) const;

 private:
  struct Edge {
    int to = 0;
    WireId wire;
    double cost = 0;
  };

  int PortOut(int node) const { return topology_.vertex_count() + node; }
  int NodeOf(DeviceId device) const {
    return topology_.devices[static_cast<size_t>(device.value)].node;
  }
  // Calls visit(from, edge) for every edge, always in the same order.
  template <class Visit>
  void VisitEdges(Visit visit) const;
  template <class Visit>
  void VisitWire(Visit visit, int from, int to, WireId wire) const;
  template <class Visit>
  void VisitNode(Visit visit, int node) const;
  bool InScope(Scope scope, int from, const Edge& edge) const;

  const Topology& topology_;
  std::vector<bool> plain_;         // by node
  std::vector<size_t> first_edge_;  // edges_ of vertex v: first_edge_[v] up to first_edge_[v + 1]
  std::vector<Edge> edges_;
};

}  // namespace heddle
