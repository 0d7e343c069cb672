// Made data: rows of features and their scores, from a seed.
//
//   MadeRows rows = NormalRows(600, 512, seed);
//   rows.scores[0]                                a · w of the first row
#pragma once

#include <cstdint>
#include <vector>

#include "lab/sample_matrix.h"

namespace heddle {

struct MadeRows {
  SampleMatrix samples;
  std::vector<double> scores;  // a · w
};

// Standard normal features; w is normal with ‖w‖ ≈ 1.
MadeRows NormalRows(int64_t rows, int64_t columns, uint64_t seed);

// Rows X with XᵀX / rows = tridiagonal(-1, 2, -1) + shift · I, so that least squares on them has
// the Hessian of the chain (quadratic.h): X = √rows Q Cᵀ, Q orthonormal columns from normal
// numbers, CCᵀ that matrix; w standard normal. REQUIRES: rows >= columns, shift > 0.
MadeRows ChainRows(int64_t rows, int64_t columns, double shift, uint64_t seed);

}  // namespace heddle
