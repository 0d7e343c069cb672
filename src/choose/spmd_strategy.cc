#include "choose/spmd_strategy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/microbatch_counts.h"
#include "plan/pipeline/baselines.h"
#include "plan/pipeline/plain_plans.h"
#include "plan/spmd/certificate.h"
#include "plan/spmd/microbatch_search.h"

namespace heddle {
namespace {

// Whole replicas: no program of divided tensors, yet sometimes faster than all of them.
struct Replicas {
  std::string_view name;
  Result<Plan> (*plan)(const Planning& planning);
  std::vector<double> (*shares)(const Planning& planning);
};
constexpr std::array kReplicas = {
    Replicas{"dp", &PlanDataParallel, &EqualShares},
    Replicas{"dp-proportional", &PlanDataParallelProportional, &SharesBySpeed}};

// What such replicas take at least, with a number of microbatches that is tried first.
double LeastOf(const Planning& planning, const std::vector<double>& shares) {
  double least = std::numeric_limits<double>::infinity();
  const double sums = ReplicaSumSeconds(planning);
  for (const int64_t count : MicrobatchCounts(planning)) {
    least = std::min(least, ReplicasBoundWithSums(planning, shares, count, sums));
  }
  return least;
}

// As long as no program fits it is not said why replicas do not either.
Status TryTuned(const Planning& planning, Result<Plan> (*tune)(const Planning& planning),
                Best& best) {
  Result<Plan> planned = tune(planning);
  if (!planned.ok()) return Ok();
  Plan plan = std::move(planned).value();
  plan.strategy = "spmd";
  HEDDLE_RETURN_IF_ERROR(best.Try(std::move(plan)));
  return Ok();
}

}  // namespace

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  Best best(planning);
  const std::optional<Error> no_programs = OptionsRefused(planning, "spmd");
  HEDDLE_ASSIGN(const std::optional<Error> refused, TryPrograms(planning, "spmd", &PlanSpmd, best));
  for (const Replicas& replicas : kReplicas) {
    if (planning.deadline.passed()) break;
    const std::vector<double> shares = replicas.shares(planning);
    if (LeastOf(planning, shares) >= best.seconds()) continue;
    const double before = best.seconds();
    HEDDLE_RETURN_IF_ERROR(best.plan() ? TryReplicas(planning, "spmd", shares, best)
                                       : TryTuned(planning, *replicas.plan, best));
    if (best.seconds() >= before) continue;
    const std::string name(replicas.name);
    best.Note(no_programs ? name + ": " + no_programs->what
                          : name + " is faster than all programs");
  }
  const bool late = planning.deadline.passed();
  if (best.tried() == 0 && refused && !late) return *refused;
  std::optional<SearchCertificate> certificate;
  if (planning.request.search != SpmdSearch::kFold && !late) {
    HEDDLE_ASSIGN(certificate, CertifyBest(planning, "spmd", best));
  }
  HEDDLE_ASSIGN(Plan plan, std::move(best).Take());
  plan.search.certificate = std::move(certificate);
  return plan;
}

}  // namespace heddle
