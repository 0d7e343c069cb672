// The folded frontier dynamic program: exact for the additive cost, in time that hardly depends on
// depth.
//
// The ops are looked at layer by layer, each layer's forward, backward and updates together, so
// that only what crosses between layers is live there: activations forward, their gradients
// backward (as the layouts that earlier layers want them in), weights used again, the norm for
// clipping. Of the states with the same facts the cheapest is kept, and of those none that another
// one can become by conversions for less (FactTable::Gap). A step works on few tensors, so its
// outcomes are found once for each combination of their facts.
//
//   layer            0        1        2        3   …                 last
//   forward   x ──►  f  ──►   f  ──►   f  ──►   f  ──►              ──► loss
//   backward         b  ◄──   b  ◄──   b  ◄──   b  ◄──              ◄──
//                       ▲ a state here is a fact for each arrow that crosses
//
// Layers that are alike give the same transition between states. Once it adds the same to every
// state (in terms of min-plus algebra: an eigenvector), it does so for the rest of them too;
// likewise where a few kinds of layers take turns. Where states only fall behind each other, each
// at its own pace, the layers between are taken as the one before, and the last of a run are swept.
#pragma once

#include <limits>

#include "plan/spmd/frontier.h"

namespace heddle {

struct SweepOptions {
  // Kept after a step. Where there are more, the cheapest are kept, and the plan is no longer sure
  // to be the cheapest. One axis stays far below; large models on two axes do not (axis_descent.h).
  size_t most_states = 20'000;
  // Over all steps; after so many only a few are kept: wide graphs, as Inception's, would take
  // minutes.
  int64_t many_states = std::numeric_limits<int64_t>::max();
  const Restriction* restriction = nullptr;  // may be null
};

struct SweepStatistics {
  int64_t states = 0;       // kept, over all steps
  int64_t most_states = 0;  // after one step
  int layers_swept = 0;     // the others repeat what was found
  bool exact = true;        // no state was given up that might have led to a cheaper plan
};

// The steps of the folded order, found once.
FoldedSteps FoldedStepsOf(SpmdProblem& problem);

SpmdChoices SearchFolded(SpmdProblem& problem, const SweepOptions& options = {},
                         SweepStatistics* statistics = nullptr);

}  // namespace heddle
