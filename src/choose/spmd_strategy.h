// The strategy `spmd`: of the plans that the search finds (spmd_planner.h) the one that the
// simulator finds fastest, for it knows what overlaps.
//
// Never slower than `dp`, `dp-proportional`, `zero`, `tensor-parallel` and `expert-parallel`: what
// the last three would do is among the search's plans, and the first two are planned too. They can
// compute layers again, which no program of plan/spmd does, so where memory is short the answer may
// be one of theirs.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning);

}  // namespace heddle
