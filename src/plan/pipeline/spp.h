// SPP: synchronous pipelines over devices with any connectivity (after Luo et al. 2022).
//
// For several device orders (device_order.h) and numbers of microbatches, and for every number of
// stages, it finds partitions with replicas (partition.h), gives each the best order of work that
// its memory allows (plan/order), and lets the simulator choose among the most promising.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/pipeline/layer_table.h"
#include "plan/planning.h"

namespace heddle {

// Somebody else's plans as candidates, for those who must not be behind them. `attempt` gives them
// to the best so far, as plans of the strategy.
struct OtherPlans {
  std::string whose;
  Status (*attempt)(const LayerTable& table, const std::string& strategy, Best& best);
};

Result<Plan> PlanPipeline(const Planning& planning);
Result<Plan> PlanPipelineBeside(const std::vector<OtherPlans>& others, const Planning& planning);

}  // namespace heddle
