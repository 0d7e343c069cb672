#include "choose/spmd_strategy.h"

#include <utility>

#include "plan/pipeline/baselines.h"
#include "plan/spmd/spmd_planner.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  Best best(planning);
  Result<std::vector<SpmdCandidate>> candidates = PlanSpmd(planning);
  if (candidates.ok()) {
    HEDDLE_RETURN_IF_ERROR(TryCandidates(planning, std::move(candidates).value(), "spmd", best));
  }
  for (const auto& plan_replicas : {&PlanDataParallel, &PlanDataParallelProportional}) {
    Result<Plan> planned = plan_replicas(planning);
    if (!planned.ok()) continue;
    Plan plan = std::move(planned).value();
    const std::string name = std::exchange(plan.strategy, "spmd");
    HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
    if (outcome == Best::Outcome::kFastest) best.Note(name + " is faster than all programs");
  }
  if (!candidates.ok() && best.tried() == 0) return candidates.error();
  return std::move(best).Take();
}

}  // namespace heddle
