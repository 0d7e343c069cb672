// Dot: the inner product of two long vectors.
//
// Several sums side by side, so that the compiler may keep them in one register; their order, and
// so the result, does not depend on the machine.
//
//   Dot(a, b, 512)
#pragma once

#include <cstdint>

namespace heddle {

inline double Dot(const double* a, const double* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[k + lane] * b[k + lane];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace heddle
