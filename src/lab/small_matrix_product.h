// The product of small_matrix.cc, for processors with vectors of kWide doubles. Included there once
// for each kind of processor, inside a namespace and under a target pragma of its own: hence no
// include guard. Templates would not do, since the compiler takes long vectors apart before it
// knows the target of whoever calls.

using Wide = double __attribute__((vector_size(kWide * sizeof(double))));

constexpr int64_t kTall = 4;  // rows at once
// Of a large b as many columns as are multiplied at once are copied first: its rows, far apart,
// would come to lie in the same few lines of the cache.
constexpr int64_t kNear = 2048;
constexpr int64_t kMostInner = 1024;

// Four rows of a and c. Rows beyond the last are computed as the first and not stored.
struct FourRows {
  const double* from[kTall];
  double* to[kTall];
  int64_t count;
};

inline Wide WideAt(const double* place) {
  Wide value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

inline void Put(const Wide& value, double* place) { std::memcpy(place, &value, sizeof value); }

// c's columns 0 … 2 kWide - 1 of four rows. An addition waits for the one before it, so eight sums
// that do not wait for each other keep two units busy.
inline void TwoWide(const FourRows& rows, int64_t inner, int64_t by_column, const double* b,
                    int64_t b_row) {
  Wide left0 = {}, left1 = {}, left2 = {}, left3 = {};
  Wide right0 = {}, right1 = {}, right2 = {}, right3 = {};
  for (int64_t k = 0, at = 0; k < inner; ++k, at += by_column, b += b_row) {
    const Wide left = WideAt(b), right = WideAt(b + kWide);
    const double a0 = rows.from[0][at], a1 = rows.from[1][at];
    const double a2 = rows.from[2][at], a3 = rows.from[3][at];
    left0 += a0 * left, right0 += a0 * right;
    left1 += a1 * left, right1 += a1 * right;
    left2 += a2 * left, right2 += a2 * right;
    left3 += a3 * left, right3 += a3 * right;
  }
  Put(left0, rows.to[0]), Put(right0, rows.to[0] + kWide);
  if (rows.count > 1) Put(left1, rows.to[1]), Put(right1, rows.to[1] + kWide);
  if (rows.count > 2) Put(left2, rows.to[2]), Put(right2, rows.to[2] + kWide);
  if (rows.count > 3) Put(left3, rows.to[3]), Put(right3, rows.to[3] + kWide);
}

// The same for kWide columns.
inline void OneWide(const FourRows& rows, int64_t inner, int64_t by_column, const double* b,
                    int64_t b_row) {
  Wide sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
  for (int64_t k = 0, at = 0; k < inner; ++k, at += by_column, b += b_row) {
    const Wide right = WideAt(b);
    sum0 += rows.from[0][at] * right;
    sum1 += rows.from[1][at] * right;
    sum2 += rows.from[2][at] * right;
    sum3 += rows.from[3][at] * right;
  }
  Put(sum0, rows.to[0]);
  if (rows.count > 1) Put(sum1, rows.to[1]);
  if (rows.count > 2) Put(sum2, rows.to[2]);
  if (rows.count > 3) Put(sum3, rows.to[3]);
}

// The same for one column.
inline void Narrow(const FourRows& rows, int64_t inner, int64_t by_column, const double* b,
                   int64_t b_row) {
  double sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (int64_t k = 0, at = 0; k < inner; ++k, at += by_column, b += b_row) {
    sum0 += rows.from[0][at] * *b;
    sum1 += rows.from[1][at] * *b;
    sum2 += rows.from[2][at] * *b;
    sum3 += rows.from[3][at] * *b;
  }
  const double sums[kTall] = {sum0, sum1, sum2, sum3};
  for (int64_t k = 0; k < rows.count; ++k) *rows.to[k] = sums[k];
}

inline void Multiply(const ProductShape& shape, const StridedMatrix& a, const double* b,
                     int64_t b_row, double* c, int64_t c_row) {
  alignas(kWide * sizeof(double)) thread_local double panel[kMostInner * 2 * kWide];
  const bool copies = shape.inner * b_row > kNear && shape.inner <= kMostInner;
  int64_t wide = 0;
  for (int64_t column = 0; column < shape.columns; column += wide) {
    const int64_t left = shape.columns - column;
    wide = left >= 2 * kWide ? 2 * kWide : left >= kWide ? kWide : 1;
    const double* beside = b + column;
    int64_t beside_row = b_row;
    if (copies && wide > 1) {
      for (int64_t k = 0; k < shape.inner; ++k) {
        for (int64_t at = 0; at < wide; at += kWide) {
          Put(WideAt(beside + k * b_row + at), panel + k * wide + at);
        }
      }
      beside = panel, beside_row = wide;
    }
    for (int64_t r = 0; r < shape.rows; r += kTall) {
      FourRows rows;
      rows.count = shape.rows - r < kTall ? shape.rows - r : kTall;
      for (int64_t k = 0; k < kTall; ++k) {
        const int64_t row = r + (k < rows.count ? k : 0);
        rows.from[k] = a.data + row * a.by_row;
        rows.to[k] = c + row * c_row + column;
      }
      if (wide == 2 * kWide) {
        TwoWide(rows, shape.inner, a.by_column, beside, beside_row);
      } else if (wide == kWide) {
        OneWide(rows, shape.inner, a.by_column, beside, beside_row);
      } else {
        Narrow(rows, shape.inner, a.by_column, beside, beside_row);
      }
    }
  }
}
