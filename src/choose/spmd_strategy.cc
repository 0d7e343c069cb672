#include "choose/spmd_strategy.h"

#include <optional>
#include <utility>

#include "plan/pipeline/baselines.h"
#include "plan/spmd/certificate.h"
#include "plan/spmd/microbatch_search.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  Best best(planning);
  const std::optional<Error> no_programs = OptionsRefused(planning, "spmd");
  HEDDLE_ASSIGN(const std::optional<Error> refused, TryPrograms(planning, "spmd", &PlanSpmd, best));
  for (const auto& plan_replicas : {&PlanDataParallel, &PlanDataParallelProportional}) {
    if (planning.options.deadline.passed()) break;
    Result<Plan> planned = plan_replicas(planning);
    if (!planned.ok()) continue;
    Plan plan = std::move(planned).value();
    const std::string name = std::exchange(plan.strategy, "spmd");
    HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
    if (outcome != Best::Outcome::kFastest) continue;
    best.Note(no_programs ? name + ": " + no_programs->what
                          : name + " is faster than all programs");
  }
  const bool late = planning.options.deadline.passed();
  if (best.tried() == 0 && refused && !late) return *refused;
  std::optional<SearchCertificate> certificate;
  if (planning.options.search != SpmdSearch::kFold && !late) {
    HEDDLE_ASSIGN(certificate, CertifyBest(planning, "spmd", best));
  }
  HEDDLE_ASSIGN(Plan plan, std::move(best).Take());
  plan.search.certificate = std::move(certificate);
  return plan;
}

}  // namespace heddle
