#include "lab/made_data.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/philox.h"
#include "lab/dot.h"

namespace heddle {
namespace {

// By column.
std::vector<double> NormalNumbers(int64_t rows, int64_t columns, uint64_t seed) {
  const RandomStream features(seed, "lab.features");
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (size_t k = 0; k < values.size(); ++k) values[k] = features.Normal(k);
  return values;
}

MadeRows WithScores(int64_t rows, int64_t columns, std::vector<double> values, uint64_t seed,
                    double scale) {
  const RandomStream weights(seed, "lab.weights");
  MadeRows made{SampleMatrix::Dense(rows, columns, std::move(values)),
                std::vector<double>(static_cast<size_t>(rows))};
  std::vector<double> truth(static_cast<size_t>(columns));
  for (size_t k = 0; k < truth.size(); ++k) truth[k] = weights.Normal(k) * scale;
  made.samples.Multiply({0, columns}, truth.data(), made.scores.data());
  return made;
}

// Each column less what the ones before it have of it (Gram and Schmidt, modified), to length 1.
void MakeOrthonormal(int64_t rows, int64_t columns, std::vector<double>& values) {
  for (int64_t j = 0; j < columns; ++j) {
    double* column = values.data() + j * rows;
    for (int64_t k = 0; k < j; ++k) {
      const double* other = values.data() + k * rows;
      const double part = Dot(column, other, rows);
      for (int64_t r = 0; r < rows; ++r) column[r] -= part * other[r];
    }
    const double length = std::sqrt(Dot(column, column, rows));
    for (int64_t r = 0; r < rows; ++r) column[r] /= length;
  }
}

}  // namespace

MadeRows NormalRows(int64_t rows, int64_t columns, uint64_t seed) {
  return WithScores(rows, columns, NormalNumbers(rows, columns, seed), seed,
                    1 / std::sqrt(static_cast<double>(columns)));
}

MadeRows ChainRows(int64_t rows, int64_t columns, double shift, uint64_t seed) {
  HEDDLE_CHECK(rows >= columns && columns >= 1 && shift > 0);
  std::vector<double> q = NormalNumbers(rows, columns, seed), values(q.size());
  MakeOrthonormal(rows, columns, q);
  // C has two diagonals: C[j][j] = pivot, C[j][j-1] = below.
  double pivot = 0, below = 0;
  for (int64_t j = 0; j < columns; ++j) {
    below = j == 0 ? 0 : -1 / pivot;
    pivot = std::sqrt(2 + shift - below * below);
    const double* here = q.data() + j * rows;
    const double* before = j == 0 ? here : here - rows;
    double* out = values.data() + j * rows;
    const double scale = std::sqrt(static_cast<double>(rows));
    for (int64_t r = 0; r < rows; ++r) out[r] = scale * (pivot * here[r] + below * before[r]);
  }
  return WithScores(rows, columns, std::move(values), seed, 1);
}

}  // namespace heddle
