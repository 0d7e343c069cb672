// Methods that update once for a batch of M microbatches, with the mean of their gradients.
//
//   const Curve curve = RunGpipe(trial);
//
// Microbatches of a batch read the same weights. Where each is all of the data, its gradient is
// ∇f(z) + σ ξ_m; so their mean is ∇f(z) + σ · (mean of ξ_m), which is what is computed.
#pragma once

#include "lab/trial.h"

namespace heddle {

// Flush: a batch of `count` microbatches enters the empty pipeline, leaves it, and then all stages
// update. Plain SGD: the more there are, the less time is idle, and the fewer updates.
Curve RunGpipe(const Trial& trial, int64_t count);

// PipeDream-2BW (Narayanan et al. 2021): no flush; batch t reads version t - 1 (batch 0 version 0),
// so W(t+1) = W(t) - γ ∇f(W(t-1)), and two versions are kept. Stage s updates at the last backward
// of the batch. REQUIRES: a batch has at least as many microbatches as there are stages.
Curve RunTwoVersions(const Trial& trial);

}  // namespace heddle
