#include "plan/spmd/spmd_strategy.h"

#include <optional>

#include "plan/spmd/microbatch_search.h"

namespace heddle {

Result<Plan> PlanSpmdStrategy(const Planning& planning) {
  Best best(planning);
  HEDDLE_ASSIGN(std::optional<Error> refused, TryPrograms(planning, best));
  if (best.tried() == 0 && refused) return *std::move(refused);
  return std::move(best).Take();
}

}  // namespace heddle
