// Lowering of stages with bodies (plan/stage_body.h): every device of a stage's mesh runs the
// pieces of its schedule (spmd_schedule.h) on its part of the tensors; what goes between stages is
// found by boundary.h. An SPMD plan is a pipeline of one such stage. Internal to lowering; see
// LowerPlan.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/lower/lower.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

// Adds to a Program that has the plan's names and hashes. REQUIRES: the plan has an SpmdPlan, or
// one pipeline whose stages have bodies. Refuses what does not compute the graph.
Result<Program> LowerBodies(const Plan& plan, const Graph& graph, const LowerOptions& options,
                            Program program);

}  // namespace heddle
