#include "run/initial_values.h"

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

}  // namespace heddle
