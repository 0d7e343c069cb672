// Ways to divide tensors that earlier systems know, each a family of plan/spmd (families.h) with
// even parts: the searches are those of `spmd`, and so are cost, memory and simulator.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// Data parallelism with large weights, their gradients and optimizer state stored in parts, over
// all devices or inside each node (Rajbhandari et al. 2020).
Result<Plan> PlanZero(const Planning& planning);

// Heads, columns and rows of weights divided inside a node, samples across (Shoeybi et al. 2019).
Result<Plan> PlanTensorParallel(const Planning& planning);

// Experts divided, everything else by samples (Lepikhin et al. 2020).
Result<Plan> PlanExpertParallel(const Planning& planning);

}  // namespace heddle
