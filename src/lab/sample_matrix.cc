#include "lab/sample_matrix.h"

#include <algorithm>

#include "base/check.h"
#include "lab/dot.h"

namespace heddle {
SampleMatrix SampleMatrix::Dense(int64_t rows, int64_t columns, std::vector<double> values) {
  HEDDLE_CHECK(static_cast<int64_t>(values.size()) == rows * columns);
  SampleMatrix matrix;
  matrix.rows_ = rows;
  matrix.columns_ = columns;
  matrix.values_ = std::move(values);
  return matrix;
}

SampleMatrix SampleMatrix::Sparse(int64_t rows, int64_t columns, std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.column != b.column ? a.column < b.column : a.row < b.row;
  });
  SampleMatrix matrix;
  matrix.rows_ = rows;
  matrix.columns_ = columns;
  matrix.begins_.assign(static_cast<size_t>(columns) + 1, 0);
  for (const Entry& entry : entries) {
    HEDDLE_CHECK(entry.row >= 0 && entry.row < rows && entry.column >= 0 && entry.column < columns);
    ++matrix.begins_[static_cast<size_t>(entry.column) + 1];
    matrix.row_of_.push_back(entry.row);
    matrix.values_.push_back(entry.value);
  }
  for (size_t k = 0; k < static_cast<size_t>(columns); ++k) {
    matrix.begins_[k + 1] += matrix.begins_[k];
  }
  return matrix;
}

void SampleMatrix::Multiply(const Block& block, const double* x, double* product) const {
  for (int64_t k = block.begin; k < block.end; ++k) {
    const double factor = x[k - block.begin];
    if (sparse()) {
      const auto column = static_cast<size_t>(k);
      for (size_t e = begins_[column]; e < begins_[column + 1]; ++e) {
        product[row_of_[e]] += factor * values_[e];
      }
      continue;
    }
    const double* column = values_.data() + k * rows_;
    for (int64_t r = 0; r < rows_; ++r) product[r] += factor * column[r];
  }
}

void SampleMatrix::Transposed(const Block& block, const double* vector, double* products) const {
  for (int64_t k = block.begin; k < block.end; ++k) {
    if (!sparse()) {
      products[k - block.begin] = Dot(values_.data() + k * rows_, vector, rows_);
      continue;
    }
    const auto column = static_cast<size_t>(k);
    double sum = 0;
    for (size_t e = begins_[column]; e < begins_[column + 1]; ++e) {
      sum += values_[e] * vector[row_of_[e]];
    }
    products[k - block.begin] = sum;
  }
}

void SampleMatrix::CopyColumn(int64_t column, double* out) const {
  std::fill(out, out + rows_, 0.0);
  const double one = 1;
  Multiply({column, column + 1}, &one, out);
}

std::vector<double> SampleMatrix::ByRow() const {
  std::vector<double> values(static_cast<size_t>(rows_ * columns_)),
      column(static_cast<size_t>(rows_));
  for (int64_t k = 0; k < columns_; ++k) {
    CopyColumn(k, column.data());
    for (int64_t r = 0; r < rows_; ++r) {
      values[static_cast<size_t>(r * columns_ + k)] = column[static_cast<size_t>(r)];
    }
  }
  return values;
}

std::vector<double> SampleMatrix::Gram(const double* weight) const {
  std::vector<double> gram(static_cast<size_t>(columns_ * columns_));
  std::vector<double> column(static_cast<size_t>(rows_));
  for (int64_t k = 0; k < columns_; ++k) {
    CopyColumn(k, column.data());
    for (int64_t r = 0; r < rows_; ++r) column[static_cast<size_t>(r)] *= weight[r];
    Transposed({0, k + 1}, column.data(), gram.data() + k * columns_);
    for (int64_t i = 0; i < k; ++i) {
      gram[static_cast<size_t>(i * columns_ + k)] = gram[static_cast<size_t>(k * columns_ + i)];
    }
  }
  return gram;
}

}  // namespace heddle
