#include "lab/sample_matrix.h"

#include <algorithm>

#include "base/check.h"
#include "lab/dot.h"
#include "lab/small_matrix.h"

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

// Some rows at a time, so that they stay near, and of each product only what is not above the
// diagonal by more than a strip.
void SampleMatrix::AddDenseGram(const double* weight, std::vector<double>& gram) const {
  constexpr int64_t kRows = 256, kStrip = 64;
  std::vector<double> near(static_cast<size_t>(kRows * columns_)),
      product(static_cast<size_t>(kStrip * columns_));
  for (int64_t first = 0; first < rows_; first += kRows) {
    const int64_t rows = std::min(kRows, rows_ - first);
    for (int64_t k = 0; k < columns_; ++k) {
      const double* column = values_.data() + k * rows_ + first;
      for (int64_t r = 0; r < rows; ++r) {
        near[static_cast<size_t>(r * columns_ + k)] = weight[first + r] * column[r];
      }
    }
    for (int64_t strip = 0; strip < columns_; strip += kStrip) {
      const int64_t end = std::min(strip + kStrip, columns_);
      // The strip's columns lie one after the other, each a row of the left factor.
      heddle::Multiply({end - strip, rows, end}, {values_.data() + strip * rows_ + first, rows_, 1},
                       near.data(), columns_, product.data(), end);
      for (int64_t i = strip; i < end; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          gram[static_cast<size_t>(i * columns_ + j)] +=
              product[static_cast<size_t>((i - strip) * end + j)];
        }
      }
    }
  }
}

std::vector<double> SampleMatrix::Gram(const double* weight) const {
  std::vector<double> gram(static_cast<size_t>(columns_ * columns_));
  if (!sparse()) AddDenseGram(weight, gram);
  std::vector<double> column(static_cast<size_t>(rows_));
  for (int64_t k = 0; k < columns_; ++k) {
    if (sparse()) {
      CopyColumn(k, column.data());
      for (int64_t r = 0; r < rows_; ++r) column[static_cast<size_t>(r)] *= weight[r];
      Transposed({0, k + 1}, column.data(), gram.data() + k * columns_);
    }
    for (int64_t i = 0; i < k; ++i) {
      gram[static_cast<size_t>(i * columns_ + k)] = gram[static_cast<size_t>(k * columns_ + i)];
    }
  }
  return gram;
}

}  // namespace heddle
