// Which devices sum which gradients, and what that costs.
//
//   GradientSums sums(planning);
//   plan.all_reduce = sums.Choose(GradientGroups(planning, holders));
#pragma once

#include <map>
#include <vector>

#include "cost/network_cost.h"
#include "plan/planning.h"

namespace heddle {

// Devices that sum gradients with each other, all that hold the same parameter, with the bytes of
// the gradients that they send. Groups of one are left out.
using GradientBytes = std::map<std::vector<DeviceId>, double>;
// `holders` by layer.
GradientBytes GradientGroups(const Planning& planning,
                             const std::vector<std::vector<DeviceId>>& holders);

// What sums over groups of devices cost; remembers them.
class GradientSums {
 public:
  explicit GradientSums(const Planning& planning) : network_(*planning.cluster) {}

  // The algorithm that sums a bucket soonest, of those that every group can use.
  CollectiveAlgorithm Choose(const GradientBytes& groups);
  // Of one bucket; in proportion of any number of bytes, but for the latency.
  const CommCost& OfBucket(const std::vector<DeviceId>& group, CollectiveAlgorithm algorithm);

 private:
  struct Costs {
    std::map<CollectiveAlgorithm, CommCost> by_algorithm;  // those it can use
  };
  const Costs& CostsOf(const std::vector<DeviceId>& group);

  NetworkCost network_;
  std::map<std::vector<DeviceId>, Costs> known_;
};

}  // namespace heddle
