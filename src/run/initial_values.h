// Initial values: weights and synthetic samples, each element by its own counter (philox.h), so
// that no device, share or shard changes them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"

namespace heddle {

// Elements of a parameter, row-major: mean + deviation * normal(seed, name, element).
std::vector<double> InitialParameter(const Graph& graph, const Parameter& parameter, uint64_t seed);

// Synthetic data: elements of an input for samples [first, first + count) of an endless stream.
// Whole-number inputs are indices below the extent they select from (tokens, classes).
std::vector<double> SyntheticInput(const Graph& graph, TensorId input, uint64_t seed, int64_t first,
                                   int64_t count);

// The extent that a whole-number input indexes; 0 when no op reads it.
int64_t IndexBound(const Graph& graph, TensorId input);

}  // namespace heddle
