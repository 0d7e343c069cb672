// An SPMD plan as JSON, small enough to read: steps are lines such as "block0.fc1 b.n" (an op and
// its rule on both mesh axes) and "d.x: P.R -> R.R ring" (a tensor, its layouts, the algorithm).
// docs/plan.md shows one.
#pragma once

#include "base/json_fwd.h"
#include "base/result.h"
#include "model/graph.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

Json SpmdToJson(const SpmdPlan& plan, const Graph& graph);
// Names must be the graph's; whether the steps compute it is CheckSpmdPlan's affair.
Result<SpmdPlan> SpmdFromJson(const JsonField& json, const Graph& graph);

}  // namespace heddle
