// How fast any plan of a family could be at best.
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
// in layer l: with all N at once, or the largest of so many microbatches, since larger pieces cost
// less per sample. Where devices divide ops among them, a sample's way has no such latency.
Seconds FamilyBound(const Planning& planning, bool divides_ops, int64_t microbatches = 1);

}  // namespace heddle
