// Estimate: the time and memory of an SPMD plan, step by step.
//
// The additive cost that the searches minimise charges every op the slowest device. In truth
// devices wait for each other only where they exchange something: stage_seconds lets each group of
// devices start an exchange when its last member is there. Neither knows that exchanges go on while
// devices compute; the simulator does.
#pragma once

#include <array>
#include <vector>

#include "plan/spmd/problem.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

inline constexpr int kCollectiveKinds = 5;

using RatioParts = std::array<std::array<double, kRatioGroups>, kMeshAxes>;

struct SpmdEstimate {
  double stage_seconds = 0;
  double additive_seconds = 0;  // the sum of all below
  double compute_seconds = 0;
  double fill_seconds = 0;  // of S→P
  std::array<double, kCollectiveKinds> exchange_seconds{};
  std::array<double, kCollectiveKinds> exchange_bytes{};  // of the whole tensors
  std::vector<Bytes> peak;                                // by number in the mesh
  // Of the peak, what an axis divides in the ratios of a group: bytes by device, axis and group.
  std::vector<RatioParts> peak_parts;
};

// Memory is what is stored, gradients and optimizer state included, and every copy of a tensor from
// the step that makes it to the last one that reads it.
SpmdEstimate EstimateOf(SpmdProblem& problem, const SpmdPlan& plan);

// The same for one of several microbatches, neither the first nor the last: sums of gradients and
// weights that were gathered once are there all the while, and nothing is updated.
SpmdEstimate LaterEstimateOf(SpmdProblem& problem, const SpmdPlan& plan);

// The device that lacks most, and how much; nothing when all fit.
struct MemoryLack {
  DeviceId device;
  Bytes needed, available;
};
std::optional<MemoryLack> LackOf(const SpmdProblem& problem, const SpmdEstimate& estimate);

}  // namespace heddle
