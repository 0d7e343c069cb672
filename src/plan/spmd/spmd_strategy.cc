#include "plan/spmd/spmd_strategy.h"

#include <fmt/format.h>

#include "base/text.h"
#include "plan/spmd/spmd_planner.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  HEDDLE_ASSIGN(std::vector<SpmdCandidate> candidates, PlanSpmd(planning));
  Best best(planning);
  std::vector<Plan> plans;
  for (SpmdCandidate& candidate : candidates) {
    best.Note(fmt::format("{}: {} without overlap", candidate.how,
                          ToText(Seconds{candidate.estimate.stage_seconds})));
    Plan plan = planning.Blank("spmd", "");
    plan.microbatches = 1;
    plan.spmd = std::move(candidate.plan);
    plans.push_back(std::move(plan));
  }
  HEDDLE_RETURN_IF_ERROR(best.TryAll(std::move(plans)));
  return std::move(best).Take();
}

}  // namespace heddle
