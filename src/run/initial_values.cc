#include "run/initial_values.h"

#include "base/check.h"
#include "base/philox.h"

namespace heddle {

std::vector<double> InitialParameter(const Graph& graph, const Parameter& parameter,
                                     uint64_t seed) {
  const Tensor& tensor = graph.tensor(parameter.tensor);
  const RandomStream stream(seed, tensor.name);
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  for (size_t k = 0; k < values.size(); ++k) {
    values[k] = parameter.initial_mean + parameter.initial_deviation * stream.Normal(k);
  }
  return values;
}

int64_t IndexBound(const Graph& graph, TensorId input) {
  for (const Op& op : graph.ops()) {
    const bool embeds = op.kind == OpKind::kEmbedding && op.inputs[0].tensor == input;
    const bool labels = op.kind == OpKind::kCrossEntropy && op.inputs[1].tensor == input;
    if (embeds) return graph.tensor(op.inputs[1].tensor).shape[0];
    if (labels) return graph.tensor(op.inputs[0].tensor).shape.back();
  }
  return 0;
}

std::vector<double> SyntheticInput(const Graph& graph, TensorId input, uint64_t seed, int64_t first,
                                   int64_t count) {
  const Tensor& tensor = graph.tensor(input);
  HEDDLE_CHECK(tensor.role == Role::kInput);
  const int64_t per_sample = tensor.elements() / graph.batch();
  const RandomStream stream(seed, "data." + tensor.name);
  const int64_t bound = tensor.dtype == DType::kI64 ? IndexBound(graph, input) : 0;
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count * per_sample));
  for (int64_t k = first * per_sample; k < (first + count) * per_sample; ++k) {
    const auto index = static_cast<uint64_t>(k);
    values.push_back(bound > 0
                         ? static_cast<double>(stream.Below(index, static_cast<uint64_t>(bound)))
                         : stream.Normal(index));
  }
  return values;
}

}  // namespace heddle
