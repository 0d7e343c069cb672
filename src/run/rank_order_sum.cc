#include "run/rank_order_sum.h"

#include <algorithm>
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

using Half = _Float16;

constexpr float kMostHalf = 65504;

Half ToHalf(double value) {
  return static_cast<Half>(std::clamp<double>(value, -kMostHalf, kMostHalf));
}

template <class Number>
void PackHalves(const std::byte* from, size_t count, std::byte* to) {
  for (size_t k = 0; k < count; ++k) {
    Number value;
    std::memcpy(&value, from + k * sizeof(Number), sizeof(Number));
    const Half half = ToHalf(static_cast<double>(value) * kHalfScale);
    std::memcpy(to + k * sizeof(Half), &half, sizeof(Half));
  }
}

template <class Number>
void UnpackHalves(const std::byte* from, size_t count, std::byte* to) {
  for (size_t k = 0; k < count; ++k) {
    Half half;
    std::memcpy(&half, from + k * sizeof(Half), sizeof(Half));
    const auto value = static_cast<Number>(static_cast<double>(half) / kHalfScale);
    std::memcpy(to + k * sizeof(Number), &value, sizeof(Number));
  }
}

void SumHalves(std::span<const std::byte* const> parts, size_t count, std::byte* to) {
  for (size_t k = 0; k < count; ++k) {
    float sum = 0;
    for (const std::byte* part : parts) {
      Half value;
      std::memcpy(&value, part + k * sizeof(Half), sizeof(Half));
      sum += static_cast<float>(value);
    }
    const Half rounded = ToHalf(sum);
    std::memcpy(to + k * sizeof(Half), &rounded, sizeof(Half));
  }
}

}  // namespace

void ToHalves(DType dtype, const std::byte* from, size_t count, std::byte* to) {
  HEDDLE_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  dtype == DType::kF64 ? PackHalves<double>(from, count, to) : PackHalves<float>(from, count, to);
}

void FromHalves(const std::byte* from, size_t count, DType dtype, std::byte* to) {
  HEDDLE_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  dtype == DType::kF64 ? UnpackHalves<double>(from, count, to)
                       : UnpackHalves<float>(from, count, to);
}

void SumInRankOrder(DType dtype, std::span<const std::byte* const> parts, size_t bytes,
                    std::byte* to) {
  if (bytes == 0) return;
  if (dtype == DType::kF16) return SumHalves(parts, bytes / sizeof(Half), to);
  HEDDLE_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
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
