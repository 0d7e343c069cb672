// A* over partial programs: the ops in the graph's order, one rule at a time.
//
// A state is the facts of the live tensors; its cost so far, g, has every conversion that is known
// to be necessary; h is the sum over the remaining ops of the least that any rule gives.
// Conversions are never negative, so h is admissible and consistent: the first complete program
// taken from the queue is the cheapest. All activations kept for backward are live at the loss, so
// this is for small models; folded_sweep.h is for deep ones.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/spmd/frontier.h"

namespace heddle {

// Nothing when it would take more states than that.
std::optional<SpmdChoices> SearchAStar(SpmdProblem& problem, int64_t most_states = 2'000'000);

}  // namespace heddle
