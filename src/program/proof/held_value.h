// HeldValue: what a buffer has at a point of the walk, and of which samples.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>

#include "program/proof/value_parts.h"

namespace heddle {

// A part of a buffer. Values that flow count their samples from `base`, the first of their
// microbatch; gradients of weights have the samples in their terms, weights the version.
struct HeldPart {
  static constexpr int64_t kAnyBase = INT64_MIN;  // zeros, and what has no samples
  static constexpr StateId kSum = -1;             // a gradient of a weight: its terms are `sum`

  BoxId box = BoxTable::kNothing;
  StateId state = TermTable::kWhole;
  int64_t base = kAnyBase;
  SumTerms sum = {};
};
using HeldParts = boost::container::small_vector<HeldPart, 1>;

struct HeldBuffer {
  HeldParts parts;
  int pending = 0;  // communications that have still to write it
  int names = 1;
};

}  // namespace heddle
