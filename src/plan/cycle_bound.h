// How fast a plan's partition could be at best, under any order of work.
#pragma once

#include "base/units.h"
#include "plan/planning.h"

namespace heddle {

// No order of this plan's partition is faster. The largest of
//   device      what it computes in one iteration;
//   wire        the bytes it carries over its bandwidth;
//   cycle       from a stage's first forward of an iteration to that of the next lies the way to a
//               later stage, that stage's own work (without gradients of weights, which an order
//               may put off), the way back, and then the sum of the first one's gradients (it can
//               begin only with the last microbatch's backward) or its update. On the way a
//               microbatch passes through the quickest device of a stage that has a part of it, and
//               messages have the links to themselves. The same holds for what a wire carries
//               between later stages: before its first message and after its last lie parts of the
//               way;
//   sums        a device's work, less the last piece of it, and the sums of its gradients, none of
//               which is complete before.
Seconds OrderBound(const Planning& planning, const Plan& plan, const Evaluation& evaluation);

}  // namespace heddle
