// LocalSGD: replicas take H steps each on their own, then are averaged. Losses are those of the
// running average: of the replicas as they are at that time, in the midst of a round too, each
// block with the updates it has had by then. Three ways:
//
//   multiplexed   S replicas share the S-stage pipeline, microbatch m belongs to replica m mod S:
//                 none waits for its own weights; a round of S·H microbatches takes
//                 2SH + 2(S-1) ticks, then the average
//   plain         every device holds a whole model: a step takes as long as S stages, a round
//                 S·H·(forward + backward), then the average
//   outer         as multiplexed; the average is not taken over but is the gradient of an outer
//                 Nesterov momentum (DiLoCo, Douillard et al. 2023, with plain SGD inside):
//                 Δ = x - average; u ← μ u + Δ; x ← x - η (Δ + μ u)
//
//   const Curve curve = RunLocal(trial, LocalKind::kMultiplexed);
//
// Without noise or samples all replicas go the same way, and one is computed.
#pragma once

#include <cstdint>

#include "lab/trial.h"

namespace heddle {

enum class LocalKind : uint8_t { kMultiplexed, kPlain, kOuter };

// Ticks of a round, the average included; where that is more than the trial has, at least so many.
int64_t LocalRoundTicks(const Trial& trial, LocalKind kind);

// Rounds that end within the trial.
int64_t LocalRounds(const Trial& trial, LocalKind kind);

Curve RunLocal(const Trial& trial, LocalKind kind);

}  // namespace heddle
