// Plans as JSON: whatever is read is written back and read again as the same; validating it ends.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "program/plan/plan.h"

namespace {

size_t ItemsOf(const heddle::Plan& plan) {
  size_t items = 0;
  for (const auto& pipeline : plan.pipelines) {
    for (const auto& stage : pipeline.stages) items += stage.order.size();
  }
  return items;
}

heddle::Plan SmallPlan() {
  heddle::Plan plan;
  plan.request.model = "tiny-mlp";
  return plan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto plan = heddle::ParsePlan(text, "fuzz");
  if (!plan.ok() || ItemsOf(plan.value()) > 10000) return 0;  // long orders only cost time
  int layers = 0;
  for (const auto& pipeline : plan.value().pipelines) {
    for (const auto& stage : pipeline.stages) {
      for (const heddle::LayerRun& run : stage.chunks) layers = std::max(layers, run.last + 1);
    }
  }
  (void)heddle::ValidatePlan(plan.value(), layers, "fuzz");
  const heddle::Graph graph =  // the names of an SPMD program's steps
      heddle::GraphOf(plan.value().spmd ? plan.value() : SmallPlan()).value();
  const std::string written = heddle::PlanToJson(plan.value(), graph).dump();
  const auto again = heddle::ParsePlan(written, "written");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(heddle::PlanToJson(again.value(), graph).dump() == written);
  return 0;
}
