// The product of small_matrix.cc, for processors with vectors of kWide doubles. Included there once
// for each kind of processor, inside a namespace and under a target pragma of its own: hence no
// include guard. A template would not do, since the compiler takes long vectors apart before it
// knows the target of whoever calls.

using Wide = double __attribute__((vector_size(kWide * sizeof(double))));

inline void Multiply(const ProductShape& shape, const StridedMatrix& a, const double* b,
                     int64_t b_row, double* c, int64_t c_row) {
  constexpr int64_t kTall = 4;  // rows at once
  const int64_t wide_end = shape.columns / kWide * kWide;
  for (int64_t r = 0; r < shape.rows; r += kTall) {
    const int64_t tall = shape.rows - r < kTall ? shape.rows - r : kTall;
    // Rows beyond the last are computed as this one and not stored.
    const double* row[kTall];
    for (int64_t k = 0; k < kTall; ++k) row[k] = a.data + (r + (k < tall ? k : 0)) * a.by_row;
    for (int64_t column = 0; column < wide_end; column += kWide) {
      Wide sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
      for (int64_t k = 0; k < shape.inner; ++k) {
        Wide right;
        std::memcpy(&right, b + k * b_row + column, sizeof right);
        const int64_t at = k * a.by_column;
        sum0 += row[0][at] * right;
        sum1 += row[1][at] * right;
        sum2 += row[2][at] * right;
        sum3 += row[3][at] * right;
      }
      const Wide* sums[kTall] = {&sum0, &sum1, &sum2, &sum3};
      for (int64_t k = 0; k < tall; ++k) {
        std::memcpy(c + (r + k) * c_row + column, sums[k], sizeof(Wide));
      }
    }
    for (int64_t column = wide_end; column < shape.columns; ++column) {
      for (int64_t k = 0; k < tall; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < shape.inner; ++i) {
          sum += row[k][i * a.by_column] * b[i * b_row + column];
        }
        c[(r + k) * c_row + column] = sum;
      }
    }
  }
}
