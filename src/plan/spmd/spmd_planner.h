// SPMD: one program for all devices, each with its part of the tensors, fitted to unequal devices
// (after Zhang et al. 2024, HAP).
//
// On one row of all devices, and on rows by node where nodes are of equal size, from several ratios
// to start with: find the cheapest program (folded_sweep.h, axis_descent.h), fit the ratios to it
// (ratios.h), and so on while the time falls. What earlier systems would do (families.h) is tried
// as well, as they do it and with samples divided by speed: the searches' cost knows no overlap.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/estimate.h"
#include "plan/spmd/families.h"
#include "plan/spmd/schedule_bound.h"

namespace heddle {

struct SpmdCandidate {
  SpmdPlan plan;
  SpmdEstimate estimate;
  std::string how;        // "8 x 8 devices, ratios by compute, fitted"
  bool squeezed = false;  // with more memory there would be a faster one than all that were found
  // Simulated, with so many microbatches as it is meant for (schedule_bound.h); and with gradients
  // exchanged after each of them.
  StepTimes times, times_each;
  bool fits = true, fits_each = true;  // likewise, by estimate
};

// What a search is for.
struct SpmdAim {
  int64_t microbatches = 1;  // the planning's batch is one of so many
  // Plans that take as long are of no use: of them it is enough to know that they do.
  double limit = std::numeric_limits<double>::infinity();
};

// Whether simulating a Program takes long: it has every op of every microbatch that is looked at
// (few_microbatches.h), on every device.
bool IsLargeProgram(const Planning& planning, int64_t microbatches);

// Different plans that fit, the fastest by estimate first, then those of the families: the
// simulator knows overlap, and may prefer another. An error names the device and the bytes that
// lack when nothing fits.
Result<std::vector<SpmdCandidate>> PlanSpmd(const Planning& planning, const SpmdAim& aim = {});

// What the family itself would do, on each of its meshes, with even parts. Errors name `strategy`.
Result<std::vector<SpmdCandidate>> PlanFamily(const Planning& planning, const SpmdAim& aim,
                                              SpmdFamily family, const std::string& strategy);

}  // namespace heddle
