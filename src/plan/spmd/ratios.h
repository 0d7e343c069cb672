// Ratios: how much of everything each place on a mesh axis gets, by linear programming.
//
// For a given program, with the other axis as it is:
//   minimise   sum over stages s of T_s  +  sum over exchanges c of C_c
//   T_s >= a_sd + sum over groups g of b_sdg r_gi     every device d (at place i) in stage s
//   C_c >= k_c r_gi                                   every place i, of a padded exchange of parts
//   m_d + sum over groups g of m_dg r_gi <= M_d       the memory of every device
//   sum over i of r_gi = 1,  r >= 0                   every ratio group
// A stage is what is computed between two exchanges. Times are taken as straight lines in the
// ratio; grouped exchanges and all-reduces do not depend on it. An exchange between two ratio
// vectors is bounded by each of them. What the ratios are worth is found by planning with them:
// rounding and exact exchanges are known only then.
#pragma once

#include "plan/spmd/estimate.h"

namespace heddle {

// Ratios to start from. kSamples: samples by compute, everything else even.
enum class RatioStart : uint8_t { kEven, kSamples, kCompute, kMemory };
void SetRatios(const Cluster& cluster, DType dtype, RatioStart start, SpmdMesh& mesh);

// An error when the program cannot fit with any ratios.
Result<AxisRatios> FitRatios(SpmdProblem& problem, const SpmdPlan& plan,
                             const SpmdEstimate& estimate, size_t axis);

}  // namespace heddle
