#include "program/plan/stage_body.h"

#include <algorithm>

namespace heddle {

BodyShape WholeShape(const SpmdPlan& plan, const Graph& graph) {
  const auto first_backward =
      std::find_if(plan.steps.begin(), plan.steps.end(), [&](const SpmdStep& step) {
        return !step.converts() && graph.op(step.op).phase != Phase::kForward;
      });
  ChunkSteps all;
  all.backward = static_cast<size_t>(first_backward - plan.steps.begin());
  all.end = plan.steps.size();
  return {{std::move(all)}, plan.steps.size(), {}};
}

std::vector<std::string> DevicesOf(const SpmdPlan& plan) {
  std::vector<std::string> devices;
  for (const std::vector<std::string>& row : plan.mesh) {
    devices.insert(devices.end(), row.begin(), row.end());
  }
  return devices;
}

std::vector<int32_t> LayersOfSteps(const SpmdPlan& plan, size_t begin, size_t end,
                                   const Graph& graph) {
  std::vector<int32_t> layers(end - begin, -1);
  for (size_t k = begin; k < end; ++k) {
    if (!plan.steps[k].converts()) layers[k - begin] = graph.op(plan.steps[k].op).layer.value;
  }
  for (size_t k = layers.size(); k-- > 1;) {
    if (layers[k - 1] < 0) layers[k - 1] = layers[k];
  }
  for (size_t k = 1; k < layers.size(); ++k) {
    if (layers[k] < 0) layers[k] = layers[k - 1];
  }
  return layers;
}

}  // namespace heddle
