// What a model needs at least, by arithmetic: no search finds a plan that needs less, so where this
// is too much there is nothing to search for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "plan/planning.h"

namespace heddle {

struct LeastMemory {
  double weights = 0;      // bytes of parameters and of the optimizer's state, each once
  double gradients = 0;    // of parameters
  double activations = 0;  // of one sample: what backward reads, each once, unless computed again

  // With the samples that are in flight at a time.
  double With(double samples) const { return weights + samples * activations; }
};
LeastMemory LeastMemoryOf(const Planning& planning);

// Of all devices together.
double MemoryOfAll(const Planning& planning);

// Why nothing fits that stores everything once and keeps `samples` samples, if so: "… need 95 GiB
// and all devices have 64 GiB".
std::optional<Error> TooLargeForAll(const Planning& planning, const std::string& strategy,
                                    double samples);

// Whether every device has room for all parameters, their gradients and their state.
bool EachHoldsModel(const Planning& planning);

}  // namespace heddle
