// What PE's list order of a partition takes at most, known before any order is searched or
// simulated. SPP's paper is known to us by its abstract only: the bound is our own derivation
// (docs/pipeline.md has the proof).
//
//   T <= (M + 4 S - 4) C + A + U
//
//   M   microbatches of a pipeline          S   its stages
//   C   a cycle: the longest of a device's forward and backward of a microbatch, and of a message's
//       way while all that may use its wires at the same time do (fair sharing leaves it 1 / k)
//   A   the sums of gradients, one after the other where they or the messages share wires
//   U   updates, and what else a device computes once an iteration
//
// It holds where the list order's min(M, 4 (S - s)) microbatches in flight at stage s, counted from
// 1, fit in memory.
//
//   const Seconds most = ListGuarantee(planning, plan);   // 0: none
#pragma once

#include "base/units.h"
#include "plan/planning.h"

namespace heddle {

// The same stages with PE's lists as their orders. REQUIRES: HasListOrder.
Plan ListOrdered(Plan plan);

// Whether it is a synchronous pipeline, or several, with one run of layers per stage.
bool HasListOrder(const Plan& plan);

// 0: there is none, for the plan has no list order, it does not fit, links are not shared fairly,
// devices move their messages themselves, or gradients are not summed by all-reduces.
Seconds ListGuarantee(const Planning& planning, const Plan& plan);

}  // namespace heddle
