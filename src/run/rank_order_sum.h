// Sums in the order of ranks, element by element: ((a + b) + c) + d, whoever computes them. What
// makes all communicators agree to the bit.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace heddle {

// to = the sum of the parts, each of `bytes`. `to` may be the first part, and no other.
// REQUIRES: f32 or f64; whole elements.
void SumInRankOrder(DType dtype, std::span<const std::byte* const> parts, size_t bytes,
                    std::byte* to);

}  // namespace heddle
