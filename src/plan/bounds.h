// Bounds: how fast a plan could be at best.
#pragma once

#include "base/units.h"
#include "plan/planning.h"

namespace heddle {

// No plan at all, of any partition, mapping or order, is faster on this cluster. The larger of
//   work        N Σ_l c(l, ref) / Σ_d max_l c(l, ref) / c(l, d): every device busy all the time, on
//               the layers it is relatively best at;
//   latency     one sample through all layers and back, gradients of weights aside, on the fastest
//               device for each,
// where N is the batch, ref any fixed device, and c(l, d) the least a sample can cost on device d
// in layer l: with all N at once, since larger pieces cost less per sample. Where devices divide
// ops among them, a sample's way has no such latency.
Seconds FamilyBound(const Planning& planning, bool divides_ops);

// No order of this plan's partition is faster. The largest of
//   device      what it computes in one iteration;
//   wire        the bytes it carries over its bandwidth;
//   cycle       from the first forward of an iteration to that of the next lies the way to a stage,
//               the stage's own work (without gradients of weights, which an order may put off),
//               the way back to the first stage, and there the sum of its gradients (it can begin
//               only with the last microbatch's backward) or its update. On the way a microbatch
//               passes through the quickest device of a stage that has a part of it, and messages
//               have the links to themselves.
Seconds OrderBound(const Planning& planning, const Plan& plan, const Evaluation& evaluation);

}  // namespace heddle
