// ScheduleBound: a time that no simulation of an SPMD plan falls below, without a Program.
//
// The plan's pieces (spmd_schedule.h) are walked as the simulator walks them: every device in
// order, each exchange once all members have posted it and the group is done with the one before,
// what reads a buffer after what fills it. Exchanges take what they take alone. In truth they may
// compete for wires and take longer; as nobody chooses between waiting and going on, everything
// then comes later or at the same time, never earlier. Where one group has all devices nothing
// competes, and the bound is the simulated time.
//
// StepTimes has a weaker one that takes a fraction of the time: it walks the plan's steps. An op
// waits for the exchanges whose result it reads and for nothing else, an exchange for its own
// input; all exchanges of a group together take as long as their sum. And what the plan will take
// as a rule: exchanges wait for those before them, and share wires with their like in other groups.
//
//   double least = StepTimesOf(problem, plan, 8).least;
//   if (least < best.seconds()) least = ScheduleBound(problem, plan, 8);
//   if (least >= best.seconds()) …                          // need not be lowered
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/spmd/problem.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

// Of the steady period. The problem's graph is that of one microbatch. 0: nothing is known, for
// the pieces do not come to a steady pattern soon.
double ScheduleBound(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches);

struct StepTimes {
  double least = 0;     // no simulation takes less
  double expected = 0;  // no bound

  double likely() const { return std::max(least, expected); }
};
StepTimes StepTimesOf(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches);

}  // namespace heddle
