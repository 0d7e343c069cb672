// The strategy `spmd`: of the plans that the search finds (spmd_planner.h) the one that the
// simulator finds fastest, for it knows what overlaps.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning);

}  // namespace heddle
