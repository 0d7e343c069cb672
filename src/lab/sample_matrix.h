// SampleMatrix: features of samples by column, since a stage of a pipeline holds columns.
//
//   SampleMatrix matrix = SampleMatrix::Dense(rows, columns, values);      // values by column
//   matrix.Multiply({0, 2}, x, product);         product += A[:, 0] x[0] + A[:, 1] x[1]
//   matrix.Transposed({0, 2}, r, gradient);      gradient = {A[:, 0] · r, A[:, 1] · r}
#pragma once

#include <cstdint>
#include <vector>

#include "lab/objective.h"

namespace heddle {

class SampleMatrix {
 public:
  struct Entry {
    int32_t row = 0;
    int32_t column = 0;
    double value = 0;
  };

  // REQUIRES: rows * columns values.
  static SampleMatrix Dense(int64_t rows, int64_t columns, std::vector<double> values);
  static SampleMatrix Sparse(int64_t rows, int64_t columns, std::vector<Entry> entries);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Adds the columns of the block, each times its element of x, to `product`.
  void Multiply(const Block& block, const double* x, double* product) const;
  void Transposed(const Block& block, const double* vector, double* products) const;
  // All values, row after row.
  std::vector<double> ByRow() const;
  // Σ_r weight[r] A[r, :]ᵀ A[r, :], columns² numbers by row.
  std::vector<double> Gram(const double* weight) const;

 private:
  bool sparse() const { return !begins_.empty(); }
  void CopyColumn(int64_t column, double* out) const;
  void AddDenseGram(const double* weight, std::vector<double>& gram) const;  // its lower half

  int64_t rows_ = 0, columns_ = 0;
  std::vector<double> values_;  // dense: by column; sparse: of column k at begins_[k] …
  std::vector<int32_t> row_of_;
  std::vector<size_t> begins_;
};

}  // namespace heddle
