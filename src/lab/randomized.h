// Randomized PipeDream: stale block descent, the abstraction of PipeDream that theory speaks of.
//
//   for k = 0, 1, …:  s uniform in 0 … S-1; for each block j: z_j = x_j^{k - d_j}
//                     x_s^{k+1} = x_s^k - γ ∇_s f(z; ξ_k);   other blocks stay
//
// with d_j uniform in 0 … min(δ, k), always min(δ, k), or 0. δ is the largest delay of the same
// pipeline's PipeDream. In replay mode s, ξ and every d_j are those of PipeDream, and so are the
// bits of x. Step k ends when PipeDream's update number k does; a step's noise are the W numbers
// from k · W of the seed's sequence, W the size of the largest block, and its samples those of
// microbatch k.
//
//   const Curve curve = RunRandomized(trial, DelayMode::kUniform);
#pragma once

#include <cstdint>
#include <vector>

#include "lab/block_draws.h"
#include "lab/pipedream.h"
#include "lab/trial.h"

namespace heddle {

Curve RunRandomized(const Trial& trial, DelayMode mode, Staleness* staleness = nullptr);

// Blocks as they were up to `depth` updates ago.
//
//   BlockHistory history(x, blocks, 14);
//   history.Push(s, values);                      block s changed
//   history.Read(j, 3)                            block j before the last 3 updates of any block
//
// A ring holds the values that the last updates gave their blocks; what leaves the ring is kept as
// the block's oldest value. Another ring says, for each time, which update each block was last
// changed by.
class BlockHistory {
 public:
  BlockHistory(const std::vector<double>& x, const std::vector<Block>& blocks, int64_t depth);

  void Push(int block, const double* values);
  // REQUIRES: 0 <= delay <= depth and <= the number of pushes.
  const double* Read(int block, int64_t delay) const;
  int64_t updates() const { return updates_; }

 private:
  size_t Slot(int64_t update) const { return static_cast<size_t>(update & (slots_ - 1)); }
  const int32_t* ChangedBy(int64_t time) const {
    return changed_by_.data() + Slot(time) * blocks_.size();
  }

  std::vector<Block> blocks_;
  int64_t slots_;  // a power of two, above the depth
  int64_t width_;
  int64_t updates_ = 0;
  std::vector<double> ring_;         // by update: the block's new values
  std::vector<int> ring_block_;      // by update: which block
  std::vector<double> oldest_;       // by block: its newest value that left the ring
  std::vector<int32_t> changed_by_;  // by time and block; -1: never
};

}  // namespace heddle
