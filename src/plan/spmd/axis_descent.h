// Two mesh axes for large models: one axis at a time.
//
// With the rules of one axis fixed, the folded sweep finds the best of the other at the price of a
// single axis. It does so in turns until nothing improves, from several starts: samples or experts
// divided between the nodes, nothing divided between them, samples divided inside the nodes. The
// result is a local optimum; SearchFolded without a restriction is exact, where it can be afforded.
#pragma once

#include "plan/spmd/folded_sweep.h"

namespace heddle {

// Of one sweep (SweepOptions::many_states).
inline constexpr int64_t kManyStates = 60'000;

// Different plans, the cheapest first. REQUIRES: a mesh with two axes.
std::vector<SpmdChoices> SearchByAxis(SpmdProblem& problem);

// From choices that were good for the same model and mesh with other ratios or prices.
SpmdChoices ImproveByAxis(SpmdProblem& problem, const std::vector<int>& choices);

}  // namespace heddle
