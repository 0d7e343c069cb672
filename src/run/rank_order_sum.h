// Sums in the order of ranks, element by element: ((a + b) + c) + d, whoever computes them. What
// makes all communicators agree to the bit.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace heddle {

// to = the sum of the parts, each of `bytes`. `to` may be the first part, and no other.
// REQUIRES: f16, f32 or f64; whole elements. Halves are added as floats and rounded once.
void SumInRankOrder(DType dtype, std::span<const std::byte* const> parts, size_t bytes,
                    std::byte* to);

// Floating-point numbers as halves, and back. Gradients are small: they are multiplied, so that
// those down to 1.5e-8 keep all digits of a half; beyond ±15.9 they are cut off.
// REQUIRES: f32 or f64.
inline constexpr double kHalfScale = 4096;
void ToHalves(DType dtype, const std::byte* from, size_t count, std::byte* to);
void FromHalves(const std::byte* from, size_t count, DType dtype, std::byte* to);

}  // namespace heddle
