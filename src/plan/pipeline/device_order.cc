#include "plan/pipeline/device_order.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/stoer_wagner_min_cut.hpp>
#include <numeric>

#include "base/check.h"

namespace heddle {
namespace {

using CutGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                          boost::property<boost::edge_weight_t, double>>;

class Cutter {
 public:
  explicit Cutter(const std::function<double(int, int)>& bandwidth) : bandwidth_(bandwidth) {}

  std::vector<int> Order(const std::vector<int>& members) const {
    if (members.size() <= 2) return members;
    auto [left, right] = MinimumCut(members);
    left = Order(left);
    right = Order(right);
    return Join(std::move(left), std::move(right));
  }

 private:
  // The side with the first member comes first.
  std::pair<std::vector<int>, std::vector<int>> MinimumCut(const std::vector<int>& members) const {
    const size_t count = members.size();
    CutGraph graph(count);
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) {
        boost::add_edge(a, b, bandwidth_(members[a], members[b]), graph);
      }
    }
    std::vector<char> side(count, 0);
    boost::stoer_wagner_min_cut(graph, boost::get(boost::edge_weight, graph),
                                boost::parity_map(boost::make_iterator_property_map(
                                    side.begin(), boost::get(boost::vertex_index, graph))));
    std::pair<std::vector<int>, std::vector<int>> sides;
    for (size_t k = 0; k < count; ++k) {
      (side[k] == side[0] ? sides.first : sides.second).push_back(members[k]);
    }
    HEDDLE_CHECK(!sides.second.empty());
    return sides;
  }

  // Either side may be turned round; the first of the strongest seams wins.
  std::vector<int> Join(std::vector<int> left, std::vector<int> right) const {
    double strongest = -1;
    bool turn_left = false, turn_right = false;
    for (const bool turns_left : {false, true}) {
      for (const bool turns_right : {false, true}) {
        const double seam = bandwidth_(turns_left ? left.front() : left.back(),
                                       turns_right ? right.back() : right.front());
        if (seam <= strongest) continue;
        strongest = seam;
        turn_left = turns_left;
        turn_right = turns_right;
      }
    }
    if (turn_left) std::reverse(left.begin(), left.end());
    if (turn_right) std::reverse(right.begin(), right.end());
    left.insert(left.end(), right.begin(), right.end());
    return left;
  }

  const std::function<double(int, int)>& bandwidth_;
};

double BandwidthBetween(const Cluster& cluster, int a, int b) {
  return cluster.RouteBetween(DeviceId{a}, DeviceId{b}).bandwidth.value;
}

// Nodes by minimum cuts, and the devices inside each of them.
std::vector<int> OrderNodeByNode(const Cluster& cluster) {
  const auto& nodes = cluster.nodes();
  const std::function<double(int, int)> between = [&](int a, int b) {
    return BandwidthBetween(cluster, nodes[static_cast<size_t>(a)].devices[0].value,
                            nodes[static_cast<size_t>(b)].devices[0].value);
  };
  // Beyond this many nodes cuts are not worth their cubic time; the file is a fair order.
  constexpr size_t kMostAlone = 160;
  std::vector<int> node_order(nodes.size());
  std::iota(node_order.begin(), node_order.end(), 0);
  if (nodes.size() <= kMostAlone) node_order = Cutter(between).Order(node_order);
  std::vector<int> order;
  for (const int node : node_order) {
    for (const DeviceId id : nodes[static_cast<size_t>(node)].devices) order.push_back(id.value);
  }
  return order;
}

// Nodes with the most speed per device first, and so inside them.
std::vector<int> OrderBySpeed(const Cluster& cluster, const std::vector<int>& base,
                              const std::vector<double>& speed) {
  const auto node_speed = [&](int device) {
    const Node& node =
        cluster.nodes()[static_cast<size_t>(cluster.devices()[static_cast<size_t>(device)].node)];
    double sum = 0;
    for (const DeviceId id : node.devices) sum += speed[static_cast<size_t>(id.value)];
    return sum / static_cast<double>(node.devices.size());
  };
  const auto node_of = [&](int device) {
    return cluster.devices()[static_cast<size_t>(device)].node;
  };
  std::vector<int> place(cluster.nodes().size(), -1);  // nodes in the order of `base`
  int next = 0;
  for (const int device : base) {
    int& at = place[static_cast<size_t>(node_of(device))];
    if (at < 0) at = next++;
  }
  std::vector<int> order = base;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const double x = node_speed(a), y = node_speed(b);
    if (x != y) return x > y;
    const int p = place[static_cast<size_t>(node_of(a))],
              q = place[static_cast<size_t>(node_of(b))];
    if (p != q) return p < q;
    return speed[static_cast<size_t>(a)] > speed[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

std::vector<int> OrderByMinimumCuts(int count, const std::function<double(int, int)>& bandwidth) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return Cutter(bandwidth).Order(all);
}

std::vector<std::vector<int>> DeviceOrders(const Cluster& cluster,
                                           const std::vector<double>& speed) {
  constexpr int kMostSingle = 64;  // cuts of single devices take cubic time and more
  const int count = cluster.device_count();
  std::vector<int> file(static_cast<size_t>(count));
  std::iota(file.begin(), file.end(), 0);
  const std::vector<int> cuts =
      count <= kMostSingle
          ? OrderByMinimumCuts(count, [&](int a, int b) { return BandwidthBetween(cluster, a, b); })
          : OrderNodeByNode(cluster);
  std::vector<std::vector<int>> orders;
  const bool equal =
      std::all_of(speed.begin(), speed.end(), [&](double s) { return s == speed[0]; });
  const auto add = [&](std::vector<int> order) {
    for (int turn = 0; turn < (equal ? 1 : 2); ++turn) {
      if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
      std::reverse(order.begin(), order.end());
    }
  };
  add(cuts);
  add(file);
  if (!equal) add(OrderBySpeed(cluster, cuts, speed));
  return orders;
}

}  // namespace heddle
