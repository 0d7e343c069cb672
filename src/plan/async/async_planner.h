// Asynchronous pipelines (after PipeDream, Narayanan et al. 2019; 2BW, Narayanan et al. 2021):
// never flushed, so that only the slowest stage or channel counts. Stages, replicas and mapping
// come from the partition program of plan/pipeline, with the least bottleneck for every number of
// stages; the simulator chooses among them, memory with all weight versions counted.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanAsync(const Planning& planning);

}  // namespace heddle
