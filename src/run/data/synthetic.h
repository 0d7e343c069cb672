// Synthetic data: endless samples made up by counter (philox.h), with something in them to learn.
//
//   tokens, targets of one shape    a noisy walk: the next token is (a * token + c) mod V nine
//   times
//                                   in ten, else any; targets are the tokens one step on
//   x, one class per sample         x is normal; a teacher drawn from the seed scores each class
//                                   by a linear function of four elements, the best is the target
//   tokens, one class per sample    tokens are uniform; the teacher scores classes by two of them
//   anything else                   numbers are normal, whole numbers uniform below what they index
//
// The rule depends on the seed alone, so that what is learned holds for samples held out; those
// come from streams of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "run/data/data_source.h"

namespace heddle {

// Suits every model.
std::unique_ptr<DataSource> MakeSyntheticData(const Graph& graph, const DataOptions& options);

// Elements of an input for samples [first, first + count) of the training stream.
std::vector<double> SyntheticInput(const Graph& graph, TensorId input, uint64_t seed, int64_t first,
                                   int64_t count);

}  // namespace heddle
