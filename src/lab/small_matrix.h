// Products of small matrices, as a network of a few thousand weights needs them: too small for a
// library's preparations to pay.
//
//   // c (rows × columns) = a (rows × inner) · b (inner × columns)
//   Multiply({rows, inner, columns}, {a, inner, 1}, b, columns, c, columns);
//   // c = aᵀ · b, where a is inner × rows
//   Multiply({rows, inner, columns}, {a, 1, rows}, b, columns, c, columns);
//
// Every element is summed in order of `inner`, so its bits do not depend on the other elements.
#pragma once

#include <cstdint>

namespace heddle {

struct ProductShape {
  int64_t rows;
  int64_t inner;
  int64_t columns;
};

// Element (r, k) is at data[r · by_row + k · by_column].
struct StridedMatrix {
  const double* data;
  int64_t by_row;
  int64_t by_column;
};

// c = a · b; rows of b and c are b_row and c_row elements apart.
void Multiply(const ProductShape& shape, const StridedMatrix& a, const double* b, int64_t b_row,
              double* c, int64_t c_row);

// to (columns × rows) = from (rows × columns), whose rows are from_row apart.
void Transpose(int64_t rows, int64_t columns, const double* from, int64_t from_row, double* to);

}  // namespace heddle
