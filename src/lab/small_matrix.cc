#include "lab/small_matrix.h"

#include <cstring>

namespace heddle {
namespace {

namespace any_processor {
constexpr int64_t kWide = 2;
#include "lab/small_matrix_product.h"
}  // namespace any_processor

// Products are nine tenths of a race of language models, and vectors of 8 make it several times as
// fast. The last bits of a result differ between kinds of processors, not between runs on one.
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kWide = 4;
#include "lab/small_matrix_product.h"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,fma")
namespace avx512 {
constexpr int64_t kWide = 8;
#include "lab/small_matrix_product.h"
}  // namespace avx512
#pragma GCC pop_options

decltype(&any_processor::Multiply) BestProduct() {
  if (__builtin_cpu_supports("avx512f")) return &avx512::Multiply;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::Multiply;
  return &any_processor::Multiply;
}
#else
decltype(&any_processor::Multiply) BestProduct() { return &any_processor::Multiply; }
#endif

}  // namespace

void Multiply(const ProductShape& shape, const StridedMatrix& a, const double* b, int64_t b_row,
              double* c, int64_t c_row) {
  static const auto best = BestProduct();
  best(shape, a, b, b_row, c, c_row);
}

void Transpose(int64_t rows, int64_t columns, const double* from, int64_t from_row, double* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < columns; ++k) to[k * rows + r] = from[r * from_row + k];
  }
}

}  // namespace heddle
