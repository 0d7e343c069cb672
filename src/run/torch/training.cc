#include <fmt/format.h>

#include <algorithm>

#include "program/lower/forward_only.h"
#include "program/lower/lower.h"
#include "run/torch/train.h"

namespace heddle {

Result<DType> TrainedType(const Plan& plan, const RunConfig& config) {
  if (config.dtype) return *config.dtype;
  if (plan.dtype == DType::kF64 || plan.dtype == DType::kF32) return plan.dtype;
  return BadInput(
      config.plan,
      fmt::format("is a plan for {}, which cannot be trained in here yet", NameOf(plan.dtype)),
      "give --dtype fp32: the arithmetic of the plan, in another type");
}

Result<Training> PrepareTraining(const Plan& plan, const Graph& graph, const RunConfig& config) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    return BadInput(config.plan,
                    fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                    "run it with --emulate: devices then only keep time");
  }
  HEDDLE_RETURN_IF_ERROR(TrainedType(plan, config));
  Training training{&plan, &graph, config, {}, {}, nullptr};
  HEDDLE_ASSIGN(training.program, LowerPlan(plan, graph));
  // Looking at held-out samples knows one version of the weights.
  Plan flushed = plan;
  flushed.async.reset();
  if (flushed.local) std::fill(flushed.local->steps.begin(), flushed.local->steps.end(), 1);
  HEDDLE_ASSIGN(const Program whole, LowerPlan(flushed, graph));
  training.forward = ForwardOnly(whole);
  return training;
}

}  // namespace heddle
