// Prices for bytes that make the potentials' bound high: what memory costs where it is scarce.
#pragma once

#include "plan/spmd/potentials.h"

namespace heddle {

// One price for all kinds of device that would have too little, higher or lower as what ops would
// like to keep exceeds the room or not: the maximum of a Lagrangian, by bisection. Leaves the
// potentials at the best prices found; says whether they are above zero.
bool FindBytePrices(const MemoryLimits& limits, const Potentials::Effort& effort,
                    Potentials& potentials);

}  // namespace heddle
