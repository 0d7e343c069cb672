#include "plan/spmd/spmd_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/spmd/spmd_planner.h"

namespace heddle {
namespace {

// The search for a part of the batch. It counts sums of gradients and updates in every microbatch
// though they come once: the plans fit, and are not sure to be the best.
Result<std::vector<SpmdCandidate>> CandidatesFor(const Planning& planning, int64_t microbatches) {
  if (microbatches == 1) return PlanSpmd(planning);
  PlanOptions options = planning.options;
  options.batch = planning.options.batch / microbatches;
  HEDDLE_ASSIGN(const Planning part, Planning::Make(options, *planning.cluster, planning.profile));
  return PlanSpmd(part);
}

Result<bool> TryCandidates(const Planning& planning, std::vector<SpmdCandidate> candidates,
                           int64_t microbatches, Best& best) {
  std::vector<Plan> plans;
  std::vector<std::string> how;
  for (SpmdCandidate& candidate : candidates) {
    Plan plan = planning.Blank("spmd", "");
    plan.microbatches = microbatches;
    plan.spmd = std::move(candidate.plan);
    if (microbatches > 1) candidate.how += fmt::format(", {} microbatches", microbatches);
    plans.push_back(plan);
    how.push_back(candidate.how);
    if (microbatches == 1) continue;
    plan.spmd->converts_each = true;
    plans.push_back(std::move(plan));
    how.push_back(candidate.how + ", gradients exchanged after each");
  }
  HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                best.TryAll(std::move(plans), std::move(how)));
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [](Best::Outcome outcome) { return outcome != Best::Outcome::kDoesNotFit; });
}

// What the search finds for so many microbatches. Says whether any of it fits.
Result<bool> TryPrograms(const Planning& planning, int64_t microbatches, Best& best,
                         std::optional<Error>& refused) {
  Result<std::vector<SpmdCandidate>> candidates = CandidatesFor(planning, microbatches);
  if (!candidates.ok()) {
    if (candidates.error().kind != ErrorKind::kInfeasible) return candidates.error();
    refused = candidates.error();
    return false;
  }
  return TryCandidates(planning, std::move(candidates).value(), microbatches, best);
}

}  // namespace

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  const int64_t batch = planning.options.batch;
  const auto& given = planning.options.microbatches;
  if (given && batch % *given != 0) {
    return BadInput("spmd",
                    fmt::format("{} microbatches do not divide the batch of {}", *given, batch),
                    "an SPMD program has microbatches of one size");
  }
  Best best(planning);
  std::optional<Error> refused;
  HEDDLE_ASSIGN(bool fits, TryPrograms(planning, given.value_or(1), best, refused));
  // The most microbatches first: if even they need too much, so do fewer.
  if (!fits && !given) {
    for (const int64_t microbatches : {8, 4, 2}) {
      if (batch % microbatches != 0) continue;
      HEDDLE_ASSIGN(fits, TryPrograms(planning, microbatches, best, refused));
      if (!fits) break;
    }
  }
  if (best.tried() == 0 && refused) return *std::move(refused);
  return std::move(best).Take();
}

}  // namespace heddle
