// SPMD: one program for all devices, each with its part of the tensors, fitted to unequal devices
// (after Zhang et al. 2024, HAP).
//
// On one row of all devices, and on rows by node where nodes are of equal size, from several ratios
// to start with: find the cheapest program (folded_sweep.h, axis_descent.h), fit the ratios to it
// (ratios.h), and so on while the time falls. What earlier systems would do (families.h) is tried
// as well, as they do it and with samples divided by speed: the searches' cost knows no overlap.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/estimate.h"
#include "plan/spmd/families.h"

namespace heddle {

struct SpmdCandidate {
  SpmdPlan plan;
  SpmdEstimate estimate;
  std::string how;        // "8 x 8 devices, ratios by compute, fitted"
  bool squeezed = false;  // with more memory there would be a faster one than all that were found
};

// Different plans that fit, the fastest by estimate first, then those of the families: the
// simulator knows overlap, and may prefer another. An error names the device and the bytes that
// lack when nothing fits.
Result<std::vector<SpmdCandidate>> PlanSpmd(const Planning& planning, size_t most_plans = 4);

// What the family itself would do, on each of its meshes, with even parts. Errors name `strategy`.
Result<std::vector<SpmdCandidate>> PlanFamily(const Planning& planning, SpmdFamily family,
                                              const std::string& strategy);

}  // namespace heddle
