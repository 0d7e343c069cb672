// SPP: synchronous pipelines over devices with any connectivity (after Luo et al. 2022).
//
// For several device orders (device_order.h) and numbers of microbatches, and for every number of
// stages, it finds partitions with replicas (partition.h), gives each the best order of work that
// its memory allows (plan/order), and lets the simulator choose among the most promising.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanPipeline(const Planning& planning);

}  // namespace heddle
