// How many parts the batch of an SPMD program is taken in, and the programs for it.
//
// Forward and backward for each, gradients add up. All powers of two, each as the next divisor of
// the batch (an SPMD program has microbatches of one size), whose bound is below the best, as long
// as more help; or as many as the options say. Programs of many microbatches are judged by few
// (few_microbatches.h), and only those are lowered whose bound (schedule_bound.h) is below the
// best.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/spmd_planner.h"

namespace heddle {

// Finds programs for one microbatch.
using ProgramFinder =
    std::function<Result<std::vector<SpmdCandidate>>(const Planning& planning, const SpmdAim& aim)>;

// Why no program does what the options ask for, if so: servers and compression of gradients are for
// whole replicas.
std::optional<Error> OptionsRefused(const Planning& planning, const std::string& strategy);

// Lowers and simulates what the finder finds, as plans of the strategy. Gives back why the search
// with the smallest microbatches that found nothing did not: when nothing at all was tried that is
// what is to be said.
Result<std::optional<Error>> TryPrograms(const Planning& planning, const std::string& strategy,
                                         const ProgramFinder& find, Best& best);

}  // namespace heddle
