// LocalSGD (Stich 2019; McMahan et al. 2017): replicas take some updates of their own, then all
// become their average. Two places for them:
//
//   whole       a model on each device. A device takes as many updates of a round as its speed
//               allows, so that all come to the average together.
//   pipelined   as many models as there are stages share one pipeline, which therefore is never
//               empty within a round; nothing but activations crosses a link.
//
// The faster of those that fit is taken, by simulated seconds per batch.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// So many updates for each on average, in proportion to their speeds, at least one.
// REQUIRES: speeds above 0.
std::vector<int64_t> UpdatesBySpeed(const std::vector<double>& speeds, int64_t every);

Result<Plan> PlanLocal(const Planning& planning);

}  // namespace heddle
