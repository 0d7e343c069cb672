// LearningRate: how the rate changes over a run.
//
//   HEDDLE_ASSIGN(LearningRate rate, ParseLearningRate("cosine:warmup=100,floor=0.1"));
//   rate.At(step, total_steps, 3e-4)
//
//   base      .--------___                 warmup   steps that climb in a straight line
//            /            `--.__           decay    constant, linear or cosine
//   floor   /                   ``---      floor    the fraction of base it ends at
//           0   warmup          total
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

enum class Decay : uint8_t { kConstant, kLinear, kCosine };

struct LearningRate {
  Decay decay = Decay::kConstant;
  int64_t warmup = 0;  // steps
  double floor = 0;    // of base, 0 to 1

  // The rate of a step, counted from 0. With w = warmup, n = total, f = floor:
  //   step < w    base * (step + 1) / w             (Goyal et al. 2017, section 2.2)
  //   else        p = (step - w) / (n - w), at most 1
  //     linear    base * (1 - (1 - f) * p)
  //     cosine    base * (f + (1 - f) * (1 + cos(pi * p)) / 2)   (Loshchilov and Hutter 2017, eq.
  //     5)
  // A run that ends within its warm-up does not decay.
  double At(int64_t step, int64_t total, double base) const;

  // The shortest text that parses to this.
  std::string ToString() const;
};

// NAME or NAME:key=value,key=value with the names constant, linear and cosine and the keys warmup
// (steps) and floor (0 to 1; not for constant).
Result<LearningRate> ParseLearningRate(std::string_view spec);

}  // namespace heddle
