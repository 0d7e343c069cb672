// ExchangeCost: how long a collective takes when all groups along a mesh axis run it at once.
//
// Along axis 1 the groups are the rows; along axis 0 the k-th devices of all rows form a group, and
// the groups share the nodes' links. Their wire loads are added up: the exchange takes the longest
// group alone, or the latency plus the busiest wire, whichever is more.
//
// Every algorithm's time is latency + bytes * slope for given shares, so each is worked out once.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cost/network_cost.h"
#include "plan/spmd/mesh.h"

namespace heddle {

enum class Scope : uint8_t { kBetweenNodes, kInsideNode, kAllDevices };

class ExchangeCost {
 public:
  ExchangeCost(const Cluster& cluster, const SpmdMesh& mesh);  // both must outlive this

  struct Choice {
    double seconds = 0;
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  };

  // The part of a tensor that each device has, kept once however often it occurs.
  int Intern(std::vector<double> shares);
  const std::vector<double>& shares(int id) const { return *shares_[static_cast<size_t>(id)]; }

  // The cheapest algorithm for a tensor of so many bytes, of which devices have the shares `from`
  // before and `to` after.
  Choice Of(CollectiveKind kind, Scope scope, int from, int to, double bytes);

  // No exchange by the algorithm takes less, whatever else is under way: latency + bytes * slope.
  // And it keeps wires busy, all groups together, for bytes * seconds each.
  struct Least {
    double latency = 0, slope = 0;
    std::vector<std::pair<WireId, double>> wires;
  };
  const Least& LeastOf(CollectiveKind kind, Scope scope, int from, int to,
                       CollectiveAlgorithm algorithm);

  // What it takes with all groups at once: latency + bytes * slope.
  struct Together {
    double latency = 0, slope = 0;
  };
  Together TogetherOf(CollectiveKind kind, Scope scope, int from, int to,
                      CollectiveAlgorithm algorithm);

  // What a group puts on the network, by itself, for each byte of the whole tensor.
  struct GroupFlow {
    double latency = 0;
    double moving = 0;            // seconds, when nothing else uses the wires
    std::vector<WireLoad> loads;  // bytes
  };
  // One for each group along the scope.
  const std::vector<GroupFlow>& FlowsOf(CollectiveKind kind, Scope scope, int from, int to,
                                        CollectiveAlgorithm algorithm);
  // Numbers of the devices in each group.
  const std::vector<std::vector<size_t>>& groups(Scope scope) const {
    return groups_[static_cast<size_t>(scope)];
  }

 private:
  struct Line {
    CollectiveAlgorithm algorithm;
    double latency;
    double slope;  // seconds per byte of the whole tensor
    Least least;   // of the group that is done first, alone
  };
  using Ranks = std::vector<size_t>;  // numbers of devices in the mesh

  const std::vector<Line>& KnownLines(CollectiveKind kind, Scope scope, int from, int to);
  std::vector<Line> LinesOf(CollectiveKind kind, Scope scope, int from, int to) const;
  std::vector<Bytes> SizesOf(CollectiveKind kind, const Ranks& group, int from, int to) const;
  double OwnSlope(CollectiveKind kind, const std::vector<Ranks>& groups, int from, int to) const;

  NetworkCost network_;
  const SpmdMesh& mesh_;
  std::array<std::vector<Ranks>, 3> groups_;  // by scope
  std::map<std::vector<double>, int> ids_;
  std::vector<const std::vector<double>*> shares_;
  std::map<std::tuple<CollectiveKind, Scope, int, int>, std::vector<Line>> lines_;
  std::map<std::tuple<CollectiveKind, Scope, int, int, CollectiveAlgorithm>, std::vector<GroupFlow>>
      flows_;
};

}  // namespace heddle
