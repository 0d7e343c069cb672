// PipeDream on a Schedule: a backward applies its gradient at once, while other microbatches are
// under way, so weights change between a microbatch's forward and its backward.
//
//   const Curve curve = RunPipeDream(trial, {.versions = Versions::kStash});
//
// What B(i, m) applies is ∇_i f at:
//
//   kStash      z(m): each block j as F(j, m) read it, the current one
//   kVertical   z(m): every block after as many updates as block 0 had at F(0, m)
//   kNone       block j < i as F(j, m) read it, block j >= i as it is when B(j, m) runs: what comes
//               from above was made by the forwards, what comes back by the weights of today. In a
//               network that is the gradient of nothing: backwards multiply by today's weights what
//               the forwards saved
#pragma once

#include <cstdint>
#include <vector>

#include "lab/trial.h"

namespace heddle {

enum class Versions : uint8_t { kStash, kVertical, kNone };

struct PipeDreamRule {
  Versions versions = Versions::kStash;
  bool step_by_stage = false;  // γ_s = γ / (S - s), one more than the block's own delay
  // v ← β v + (1 - β) g; x ← x - γ v
  bool momentum = false;
  // With momentum: a forward reads x - γ τ v, where x will be after its own delay τ = S - 1 - s if
  // v stays what it is (Chen et al. 2018, SpecTrain).
  bool look_ahead = false;
  Staleness* staleness = nullptr;  // filled if wanted
};

Curve RunPipeDream(const Trial& trial, const PipeDreamRule& rule);

// What no pipeline can do: as many updates, each when the microbatch has left the pipeline, none of
// them stale. What PipeDream leaves more is what its delays cost.
Curve RunWithoutDelay(const Trial& trial);

}  // namespace heddle
