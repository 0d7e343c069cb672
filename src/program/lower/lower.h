// Lowering: Plan -> Program. The only place that makes Programs from plans.
//
//   HEDDLE_ASSIGN(Program program, LowerPlan(plan, graph));
//
// For every stage, chunk and device it derives the segments (chunk_segments.h), walks the stage's
// order, posts receives a little ahead of their use, sends results as soon as they are there, sums
// gradients in buckets (gradient_buckets.h) while backward goes on, and updates.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

struct LowerOptions {
  int receive_ahead = 2;  // receives are posted this many pieces of work before their use
  int free_behind = 4;    // a gradient sent on is freed this many pieces of work later
};

// REQUIRES: ValidatePlan(plan) is ok for this graph.
Result<Program> LowerPlan(const Plan& plan, const Graph& graph, const LowerOptions& options = {});

}  // namespace heddle
