#include "lab/cholesky.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "lab/dot.h"

namespace heddle {

std::vector<double> SolvePositive(std::vector<double> matrix, std::vector<double> right) {
  const size_t size = right.size();
  HEDDLE_CHECK(matrix.size() == size * size);
  const auto row = [&](size_t i) { return matrix.data() + i * size; };
  // The lower triangle becomes the factor.
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const double sum = row(i)[j] - Dot(row(i), row(j), static_cast<int64_t>(j));
      row(i)[j] =
          i == j ? std::sqrt(std::max(sum, std::numeric_limits<double>::min())) : sum / row(j)[j];
    }
  }
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= row(i)[k] * right[k];
    right[i] /= row(i)[i];
  }
  for (size_t i = size; i-- > 0;) {
    for (size_t k = i + 1; k < size; ++k) right[i] -= row(k)[i] * right[k];
    right[i] /= row(i)[i];
  }
  return right;
}

}  // namespace heddle
