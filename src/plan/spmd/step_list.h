// The choices of a search as a plan: every op and every conversion, in the order of the program.
//
// Conversions stand before the first op that wants them, but those of weight gradients right after
// the gradient is complete, so that they go on during the rest of backward. Updates are last.
#pragma once

#include "plan/spmd/frontier.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

struct StepOptions {
  // Weights that are stored in parts are gathered again for backward instead of being kept since
  // forward: less memory, more communication.
  bool gather_again = false;
};

SpmdPlan StepsOf(SpmdProblem& problem, const std::vector<int>& choices, StepOptions options = {});

}  // namespace heddle
