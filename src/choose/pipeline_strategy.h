// The strategy `pipeline`: the search of plan/pipeline, with the plans of all earlier systems of
// its family among its candidates, so that it is behind none of them.
#pragma once

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

Result<Plan> PlanPipelineStrategy(const Planning& planning);

}  // namespace heddle
