#include "plan/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace heddle {

LeastMemory LeastMemoryOf(const Planning& planning) {
  const Graph& graph = planning.graph;
  std::set<TensorId> kept;
  for (const Op& op : graph.ops()) {
    const bool backward = op.phase == Phase::kBackwardInput || op.phase == Phase::kBackwardWeight;
    if (!backward) continue;
    for (const Operand& input : op.inputs) {
      const Tensor& tensor = graph.tensor(input.tensor);
      if (tensor.role == Role::kActivation && tensor.per_sample) kept.insert(input.tensor);
    }
  }
  LeastMemory least;
  for (const TensorId id : kept) {
    least.activations += static_cast<double>(graph.tensor(id).bytes().value);
  }
  least.activations /= static_cast<double>(planning.request.batch);
  for (const Tensor& tensor : graph.tensors()) {
    const bool held = tensor.role == Role::kParameter || tensor.role == Role::kState;
    if (held) least.weights += static_cast<double>(tensor.bytes().value);
  }
  for (const Parameter& parameter : graph.parameters()) {
    least.gradients += static_cast<double>(graph.tensor(parameter.gradient).bytes().value);
  }
  return least;
}

double MemoryOfAll(const Planning& planning) {
  double memory = 0;
  for (int device = 0; device < planning.cluster->device_count(); ++device) {
    memory += static_cast<double>(planning.type_of(device).memory.value);
  }
  return memory;
}

std::optional<Error> TooLargeForAll(const Planning& planning, const std::string& strategy,
                                    double samples) {
  const double needed = LeastMemoryOf(planning).With(samples), has = MemoryOfAll(planning);
  if (needed <= has) return std::nullopt;
  return Infeasible(
      strategy,
      fmt::format("nothing fits: parameters, optimizer state{} need {} if stored once, and all "
                  "devices together have {}: {} too much",
                  samples > 0 ? " and the activations of the smallest part of a batch" : "",
                  ToText(Bytes{static_cast<int64_t>(needed)}),
                  ToText(Bytes{static_cast<int64_t>(has)}),
                  ToText(Bytes{static_cast<int64_t>(needed - has)})),
      "more or larger devices or --optimizer sgd need less");
}

bool EachHoldsModel(const Planning& planning) {
  const LeastMemory least = LeastMemoryOf(planning);
  const double model = least.weights + least.gradients;
  const std::vector<Device>& devices = planning.cluster->devices();
  return std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
    const Bytes memory = planning.cluster->types()[static_cast<size_t>(device.type)].memory;
    return model <= static_cast<double>(memory.value);
  });
}

}  // namespace heddle
