// ScheduleBound: a time that no simulation of an SPMD plan falls below, without a Program.
//
// The plan's pieces (spmd_schedule.h) are walked as the simulator walks them (schedule_walk.h), so
// that the bound is the simulated time, up to rounding on one axis and two thousandths on two.
//
// StepTimes has a weaker one that takes a fraction of the time: it walks the plan's steps. An op
// waits for the exchanges whose result it reads and for nothing else, an exchange for its own
// input; all exchanges of a group together take as long as their sum. And what the plan will take
// as a rule: exchanges wait for those before them, and share wires with their like in other groups.
//
//   double least = StepTimesOf(problem, plan, 8).least;
//   if (least < best.seconds()) least = ScheduleBound(problem, plan, 8, LinkModel::kShared);
//   if (least >= best.seconds()) …                          // need not be lowered
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/spmd/problem.h"
#include "program/plan/spmd_plan.h"
#include "simulate/network.h"

namespace heddle {

// Of the steady period. The problem's graph is that of one microbatch. 0: nothing is known, for
// the pieces do not come to a steady pattern soon.
double ScheduleBound(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches,
                     LinkModel links);

struct StepTimes {
  double least = 0;     // no simulation takes less
  double expected = 0;  // no bound

  double likely() const { return std::max(least, expected); }
};
StepTimes StepTimesOf(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches);

}  // namespace heddle
