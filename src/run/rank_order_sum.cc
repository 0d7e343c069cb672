#include "run/rank_order_sum.h"

#include <cstring>

#include "base/check.h"

namespace heddle {
namespace {

// Memory of messages need not be aligned: elements are copied in and out, which compiles to plain
// loads and stores.
template <class Number>
void Add(const std::byte* from, size_t count, std::byte* to) {
  for (size_t k = 0; k < count; ++k) {
    Number a, b;
    std::memcpy(&a, to + k * sizeof(Number), sizeof(Number));
    std::memcpy(&b, from + k * sizeof(Number), sizeof(Number));
    a += b;
    std::memcpy(to + k * sizeof(Number), &a, sizeof(Number));
  }
}

}  // namespace

void SumInRankOrder(DType dtype, std::span<const std::byte* const> parts, size_t bytes,
                    std::byte* to) {
  HEDDLE_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  if (bytes == 0) return;
  if (to != parts[0]) std::memcpy(to, parts[0], bytes);
  for (const std::byte* part : parts.subspan(1)) {
    if (dtype == DType::kF64) {
      Add<double>(part, bytes / sizeof(double), to);
    } else {
      Add<float>(part, bytes / sizeof(float), to);
    }
  }
}

}  // namespace heddle
