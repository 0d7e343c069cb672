// SPMD: one program for all devices, each with its part of the tensors, fitted to unequal devices
// (after Zhang et al. 2024, HAP).
//
// On one row of all devices, and on rows by node where nodes are of equal size, from several ratios
// to start with: find the cheapest program (folded_sweep.h, axis_descent.h), fit the ratios to it
// (ratios.h), and so on while the time falls. A program that does not fit the memory is searched
// again with a price on bytes, which rises where they lack: a Lagrangian, so what is found is good
// but not sure to be the best that fits.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/estimate.h"

namespace heddle {

struct SpmdCandidate {
  SpmdPlan plan;
  SpmdEstimate estimate;
  std::string how;  // "8 x 8 devices, ratios by compute, fitted"
};

// Different plans that fit, the fastest by estimate first: the simulator knows overlap, and may
// prefer another. An error names the device and the bytes that lack when nothing fits.
Result<std::vector<SpmdCandidate>> PlanSpmd(const Planning& planning, size_t most_plans = 4);

}  // namespace heddle
