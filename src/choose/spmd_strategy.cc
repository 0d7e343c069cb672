#include "choose/spmd_strategy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
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
  Result<Plan> (*plan)(const Planning& planning);
  std::vector<double> (*shares)(const Planning& planning);
};
constexpr std::array kReplicas = {Replicas{&PlanDataParallel, &EqualShares},
                                  Replicas{&PlanDataParallelProportional, &SharesBySpeed}};

// What such replicas take at least, with a number of microbatches that is tried first.
double LeastOf(const Planning& planning, const std::vector<double>& shares) {
  double least = std::numeric_limits<double>::infinity();
  for (const int64_t count : MicrobatchCounts(planning)) {
    least = std::min(least, ReplicasBound(planning, shares, count));
  }
  return least;
}

}  // namespace

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  Best best(planning);
  const std::optional<Error> no_programs = OptionsRefused(planning, "spmd");
  HEDDLE_ASSIGN(const std::optional<Error> refused, TryPrograms(planning, "spmd", &PlanSpmd, best));
  for (const Replicas& replicas : kReplicas) {
    if (planning.deadline.passed()) break;
    if (LeastOf(planning, replicas.shares(planning)) >= best.seconds()) continue;
    Result<Plan> planned = replicas.plan(planning);
    if (!planned.ok()) continue;
    Plan plan = std::move(planned).value();
    const std::string name = std::exchange(plan.strategy, "spmd");
    HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
    if (outcome != Best::Outcome::kFastest) continue;
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
