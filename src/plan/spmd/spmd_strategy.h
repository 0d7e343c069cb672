// The strategy `spmd`: of the plans that the search finds (spmd_planner.h) the one that the
// simulator finds fastest, for it knows what overlaps. Where nothing fits with the whole batch at
// once, or memory is short, it is divided into 2, 4 or 8 microbatches.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning);

}  // namespace heddle
