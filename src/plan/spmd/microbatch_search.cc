#include "plan/spmd/microbatch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "plan/spmd/spmd_planner.h"

namespace heddle {
namespace {

// The part of all devices' memory that any plan needs at the end of forward: every activation that
// backward reads, every parameter and its state, each at least once.
double LeastFill(const Planning& planning, int64_t microbatches) {
  const Graph& graph = planning.graph;
  std::set<TensorId> kept;
  for (const Op& op : graph.ops()) {
    const bool backward = op.phase == Phase::kBackwardInput || op.phase == Phase::kBackwardWeight;
    for (const Operand& input : op.inputs) {
      if (backward && graph.tensor(input.tensor).role == Role::kActivation) {
        kept.insert(input.tensor);
      }
    }
  }
  double activations = 0, weights = 0, memory = 0;
  for (const TensorId id : kept) activations += static_cast<double>(graph.tensor(id).bytes().value);
  for (const Tensor& tensor : graph.tensors()) {
    const bool held = tensor.role == Role::kParameter || tensor.role == Role::kState;
    if (held) weights += static_cast<double>(tensor.bytes().value);
  }
  for (int device = 0; device < planning.cluster->device_count(); ++device) {
    memory += static_cast<double>(planning.type_of(device).memory.value);
  }
  return (activations / static_cast<double>(microbatches) + weights) / memory;
}

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
Result<bool> TryPart(const Planning& planning, int64_t microbatches, Best& best,
                     std::optional<Error>& refused) {
  Result<std::vector<SpmdCandidate>> candidates = CandidatesFor(planning, microbatches);
  if (!candidates.ok()) {
    if (candidates.error().kind != ErrorKind::kInfeasible) return candidates.error();
    refused = candidates.error();
    return false;
  }
  return TryCandidates(planning, std::move(candidates).value(), microbatches, best);
}

// The most microbatches first: if even they need too much, so do fewer, and a search that finds
// nothing takes longest. Fewer are not worth a try where memory would be nearly full at best.
Status TryParts(const Planning& planning, Best& best, std::optional<Error>& refused) {
  constexpr int64_t kMost = 8;
  constexpr double kNearlyFull = 0.75;
  for (int64_t microbatches = kMost; microbatches > 1; microbatches /= 2) {
    const bool hopeless = microbatches < kMost && LeastFill(planning, microbatches) > kNearlyFull;
    if (planning.options.batch % microbatches != 0 || hopeless) continue;
    HEDDLE_ASSIGN(const bool fits, TryPart(planning, microbatches, best, refused));
    if (!fits) break;
  }
  return Ok();
}

}  // namespace

Result<std::optional<Error>> TryPrograms(const Planning& planning, Best& best) {
  const int64_t batch = planning.options.batch;
  std::optional<int64_t> given = planning.options.microbatches;
  if (given && batch % *given != 0) {
    given = std::min(*given, batch);
    while (batch % *given != 0) ++*given;
    best.Note(fmt::format("{} microbatches: all of one size", *given));
  }
  std::optional<Error> refused;
  bool fits = false;
  const double fill = LeastFill(planning, 1);
  if (given || fill <= 1) {
    HEDDLE_ASSIGN(fits, TryPart(planning, given.value_or(1), best, refused));
  }
  constexpr double kTight = 0.4;
  if (!given && fits && fill > kTight) {
    // It may fit at once only because fast devices have little: in parts it may be faster.
    for (const int64_t microbatches : {2, 4}) {
      if (batch % microbatches != 0) continue;
      HEDDLE_RETURN_IF_ERROR(TryPart(planning, microbatches, best, refused));
    }
  } else if (!given && !fits) {
    HEDDLE_RETURN_IF_ERROR(TryParts(planning, best, refused));
  }
  if (best.tried() == 0 && !refused) {  // no number of microbatches divides the batch
    HEDDLE_RETURN_IF_ERROR(TryPart(planning, 1, best, refused));
  }
  return refused;
}

}  // namespace heddle
