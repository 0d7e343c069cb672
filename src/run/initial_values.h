// Initial values of parameters, each element by its own counter (philox.h), so that no device,
// share or shard changes them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"

namespace heddle {

// Elements of a parameter, row-major: mean + deviation * normal(seed, name, element).
std::vector<double> InitialParameter(const Graph& graph, const Parameter& parameter, uint64_t seed);

}  // namespace heddle
