// The first planners: data parallelism and pipelines as other systems plan them. Each tunes its
// number of microbatches, and recomputes activations where that makes it fit.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// Every device holds the model and an equal share of the batch; gradients are summed in buckets
// while backward goes on.
Result<Plan> PlanDataParallel(const Planning& planning);

// The same with shares in proportion to the devices' speed.
Result<Plan> PlanDataParallelProportional(const Planning& planning);

// min(layers, devices) stages, one device each in the order of the file, cut where the slowest
// stage is fastest; all forwards before all backwards (Huang et al. 2019).
Result<Plan> PlanGpipe(const Planning& planning);

// The same stages, one forward and one backward in turn (Narayanan et al. 2019, with a flush).
Result<Plan> PlanOneForwardOneBackward(const Planning& planning);

// The same stages; backward in two parts, of which the weights' fills gaps, within 1F1B's memory
// (Qi et al. 2023).
Result<Plan> PlanZbH1(const Planning& planning);

// Two runs of layers per device (Narayanan et al. 2021).
Result<Plan> PlanInterleaved(const Planning& planning);

}  // namespace heddle
