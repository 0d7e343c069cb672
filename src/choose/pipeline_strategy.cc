#include "choose/pipeline_strategy.h"

#include "plan/baseline/earlier_systems.h"
#include "plan/pipeline/spp.h"

namespace heddle {

Result<Plan> PlanPipelineStrategy(const Planning& planning) {
  static const std::vector<OtherPlans> others = {
      {"hetpipe", &TryHetPipe}, {"dapple", &TryDapple}, {"pipedream", &TryPipeDream}};
  return PlanPipelineBeside(others, planning);
}

}  // namespace heddle
