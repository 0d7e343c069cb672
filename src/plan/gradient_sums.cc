#include "plan/gradient_sums.h"

#include <algorithm>
#include <limits>
#include <set>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

GradientBytes GradientGroups(const Planning& planning,
                             const std::vector<std::vector<DeviceId>>& holders) {
  GradientBytes groups;
  for (const Parameter& parameter : planning.graph.parameters()) {
    std::set<DeviceId> group;
    for (const LayerId layer : parameter.layers) {
      const auto& more = holders[static_cast<size_t>(layer.value)];
      group.insert(more.begin(), more.end());
    }
    if (group.size() < 2) continue;
    const auto bytes = static_cast<double>(planning.graph.tensor(parameter.gradient).bytes().value);
    groups[{group.begin(), group.end()}] += planning.request.compress ? bytes / 2 : bytes;
  }
  return groups;
}

const GradientSums::Costs& GradientSums::CostsOf(const std::vector<DeviceId>& group) {
  const auto [found, is_new] = known_.try_emplace(group);
  if (!is_new) return found->second;
  const std::vector<Bytes> sizes = {Plan{}.bucket};
  for (const auto algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                               CollectiveAlgorithm::kHierarchical}) {
    const CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, algorithm, 0};
    if (!network_.Supports(request)) continue;
    found->second.by_algorithm.emplace(algorithm, network_.Collective(request));
  }
  return found->second;
}

const CommCost& GradientSums::OfBucket(const std::vector<DeviceId>& group,
                                       CollectiveAlgorithm algorithm) {
  return CostsOf(group).by_algorithm.at(algorithm);
}

CollectiveAlgorithm GradientSums::Choose(const GradientBytes& groups) {
  CollectiveAlgorithm best = CollectiveAlgorithm::kRing;
  double least = kInfinity;
  for (const auto algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                               CollectiveAlgorithm::kHierarchical}) {
    double slowest = 0;
    for (const auto& [group, unused] : groups) {
      const auto& costs = CostsOf(group).by_algorithm;
      const auto found = costs.find(algorithm);
      slowest = std::max(slowest, found == costs.end() ? kInfinity : found->second.seconds.value);
    }
    if (slowest >= least) continue;
    least = slowest;
    best = algorithm;
  }
  return best;
}

}  // namespace heddle
