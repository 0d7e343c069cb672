// How many parts the batch of an SPMD program is taken in, and the programs for it.
//
// Forward and backward for each, gradients add up. One, as long as that leaves memory; otherwise
// the fewest that fit and more while they are faster. Or as many as the options say, and more
// until they divide the batch: an SPMD program has microbatches of one size.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/spmd_planner.h"

namespace heddle {

// Finds programs for a batch that is taken at once.
using ProgramFinder = std::function<Result<std::vector<SpmdCandidate>>(const Planning& planning)>;

// Lowers and simulates what the finder finds, as plans of the strategy. Gives back why the last
// search found nothing, if it did not: when nothing at all was tried that is what is to be said.
Result<std::optional<Error>> TryPrograms(const Planning& planning, const std::string& strategy,
                                         const ProgramFinder& find, Best& best);

}  // namespace heddle
