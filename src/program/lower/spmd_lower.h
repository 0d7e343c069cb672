// Lowering of an SPMD plan: every device runs the pieces of the schedule (spmd_schedule.h) on its
// part of the tensors. Internal to lowering; see LowerPlan.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/lower/lower.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

// Adds to a Program that has the plan's names and hashes. REQUIRES: the plan has an SpmdPlan.
// Refuses one that does not compute the graph.
Result<Program> LowerSpmd(const Plan& plan, const Graph& graph, const LowerOptions& options,
                          Program program);

}  // namespace heddle
