// Stage partition: cut a chain of layers into consecutive runs so that the slowest is as fast as
// can be (dynamic program over prefixes; exact).
//
//   cost(k, first, last)   seconds of layers first..last as the k-th run
#pragma once

#include <vector>

#include "plan/planning.h"
#include "program/plan/plan.h"

namespace heddle {

// Forward and backward seconds of every layer on every device type, for `rows` samples.
class LayerSeconds {
 public:
  LayerSeconds(const Planning& planning, int64_t rows);
  // Of layers first..last on devices of the type.
  double Of(int type, int first, int last) const {
    const std::vector<double>& sums = sums_[static_cast<size_t>(type)];
    return sums[static_cast<size_t>(last) + 1] - sums[static_cast<size_t>(first)];
  }

 private:
  std::vector<std::vector<double>> sums_;  // by type: prefix sums over the layers
};

// Runs for devices of the given types, in order, each at least one layer.
// REQUIRES: types.size() <= number of layers.
std::vector<LayerRun> BalancedRuns(const LayerSeconds& seconds, int layers,
                                   const std::vector<int>& types);

}  // namespace heddle
