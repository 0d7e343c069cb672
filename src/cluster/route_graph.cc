#include "cluster/route_graph.h"

#include <functional>
#include <limits>
#include <queue>

namespace heddle {
namespace {

constexpr double kReferenceBytes = 1 << 20;

}  // namespace

RouteGraph::RouteGraph(const Topology& topology)
    : topology_(topology), plain_(topology.nodes.size(), true) {
  for (const Topology::Link& link : topology.links) {
    for (const int end : {link.a, link.b}) {
      if (topology.IsDevice(end)) plain_[static_cast<size_t>(NodeOf(DeviceId{end}))] = false;
    }
  }
  // A counting sort of the edges by the vertex they leave.
  const auto vertices = static_cast<size_t>(PortOut(topology.node_count()));
  first_edge_.assign(vertices + 1, 0);
  VisitEdges([&](int from, const Edge&) { ++first_edge_[static_cast<size_t>(from) + 1]; });
  for (size_t v = 0; v < vertices; ++v) first_edge_[v + 1] += first_edge_[v];
  edges_.resize(first_edge_.back());
  std::vector<size_t> next(first_edge_.begin(), first_edge_.end() - 1);
  VisitEdges([&](int from, const Edge& edge) { edges_[next[static_cast<size_t>(from)]++] = edge; });
}

int RouteGraph::SourceOf(DeviceId device) const {
  const int node = NodeOf(device);
  return IsPlain(node) ? PortOut(node) : device.value;
}

int RouteGraph::TargetOf(DeviceId device) const {
  const int node = NodeOf(device);
  return IsPlain(node) ? topology_.PortVertex(node) : device.value;
}

template <class Visit>
void RouteGraph::VisitEdges(Visit visit) const {
  for (const Topology::Link& link : topology_.links) {
    VisitWire(visit, link.a, link.b, link.forward);
    VisitWire(visit, link.b, link.a, link.backward);
  }
  for (int node = 0; node < topology_.node_count(); ++node) {
    if (!IsPlain(node)) VisitNode(visit, node);
  }
}

// Wires come to a port's "in" and leave from both, "in" (passing by) and "out".
template <class Visit>
void RouteGraph::VisitWire(Visit visit, int from, int to, WireId wire) const {
  const Wire& line = topology_.wires[static_cast<size_t>(wire.value)];
  const Edge edge{to, wire, line.latency.value + kReferenceBytes / line.bandwidth.value};
  visit(from, edge);
  const int node = from - topology_.device_count();
  if (node >= 0 && node < topology_.node_count()) visit(PortOut(node), edge);
}

// The mesh and the free edges of a node that is not plain.
template <class Visit>
void RouteGraph::VisitNode(Visit visit, int node) const {
  const std::vector<DeviceId>& devices = topology_.nodes[static_cast<size_t>(node)].devices;
  const bool mesh = topology_.meshes[static_cast<size_t>(node)].first_wire >= 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    visit(devices[i].value, Edge{PortOut(node), WireId{}, 0});
    visit(topology_.PortVertex(node), Edge{devices[i].value, WireId{}, 0});
    for (size_t j = 0; mesh && j < devices.size(); ++j) {
      if (i == j) continue;
      VisitWire(visit, devices[i].value, devices[j].value,
                topology_.MeshWire(node, static_cast<int>(i), static_cast<int>(j)));
    }
  }
}

bool RouteGraph::InScope(Scope scope, int from, const Edge& edge) const {
  switch (scope) {
    case Scope::kAll:
      return true;
    case Scope::kWires:
      return edge.wire.valid();
    case Scope::kOwnNode:
      return topology_.IsDevice(from) && topology_.IsDevice(edge.to) &&
             NodeOf(DeviceId{from}) == NodeOf(DeviceId{edge.to});
  }
  return false;
}

RouteGraph::Tree RouteGraph::Search(int source, Scope scope) const {
  const size_t vertices = first_edge_.size() - 1;
  std::vector<double> distance(vertices, std::numeric_limits<double>::infinity());
  std::vector<bool> settled(vertices, false);
  Tree tree(vertices);
  using Entry = std::pair<double, int>;  // distance, vertex
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  distance[static_cast<size_t>(source)] = 0;
  queue.emplace(0.0, source);
  while (!queue.empty()) {
    const int from = queue.top().second;
    queue.pop();
    if (settled[static_cast<size_t>(from)]) continue;
    settled[static_cast<size_t>(from)] = true;
    const size_t end = first_edge_[static_cast<size_t>(from) + 1];
    for (size_t i = first_edge_[static_cast<size_t>(from)]; i < end; ++i) {
      const Edge& edge = edges_[i];
      const auto to = static_cast<size_t>(edge.to);
      // Settled vertices keep their step, so that free edges cannot close a circle.
      if (settled[to] || !InScope(scope, from, edge)) continue;
      const double found = distance[static_cast<size_t>(from)] + edge.cost;
      const bool earlier = found == distance[to] && from < tree[to].previous;
      if (found >= distance[to] && !earlier) continue;
      distance[to] = found;
      tree[to] = {from, edge.wire};
      if (!earlier) queue.emplace(found, edge.to);
    }
  }
  return tree;
}

}  // namespace heddle
