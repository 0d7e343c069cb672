// Lowering of LocalSGD: the body is one round. Called by lower.h.
//
// Whole replicas, H = 3 and 2 local updates of one microbatch each, in the order of UpdatesInTurn:
//
//   device 0   F0 B0 U   F2 B2 U   F4 B4 U   scale 0.6 ┐ all-reduce
//   device 1   F1 B1 U       F3 B3 U         scale 0.4 ┘
//
// Replicas that share a pipeline, two stages, H = 2; every device holds its layers once for each
// replica (^0, ^1) and averages them where they are:
//
//   stage 0   F0^0 F1^1 .. B0^0 F2^0 B1^1 F3^1 B2^0 .. B3^1   average
//   stage 1        F0^0 B0^0 F1^1 B1^1 F2^0 B2^0 F3^1 B3^1    average
//
// The state of the optimizer is averaged as well, so that after a round there is one model, which a
// checkpoint can hold. An update is told which of its replica's it is by its version.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

// REQUIRES: ValidatePlan(plan) is ok, and plan.local. An error: weights that two stages share.
Result<Program> LowerLocal(const Plan& plan, const Graph& graph, Program program);

}  // namespace heddle
