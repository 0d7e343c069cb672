// Into how many microbatches a batch is divided: the one place that says what is tried.
//
// Every planner has the whole range, powers of two from one microbatch to one sample each, and
// refines between them: memory has thresholds, so that 24 may fit where 16 do not and be faster
// than 32. Most of the range costs nothing, for a time that a number cannot beat is known before.
//
//   bound      1     2     4     8    16    32    64   …  the least first, as long as it is below
//              ├──x──┼──x──┼─────┼──✓──┼──✓──┤           the best
//   refined                     6   12                    between the best and its neighbours
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// Multiples of `unit`: the number the user gave, if it is one; else unit times 1, 2, 4, … up to
// the batch, and the largest within it.
std::vector<int64_t> MicrobatchCounts(const Planning& planning, int64_t unit = 1);

// Closer and closer around the best: what is worth a try in the given round, 0 being the first.
// Multiples of `unit` within the batch; none where the user gave a number.
constexpr int kRefinements = 2;
std::vector<int64_t> CountsNear(const Planning& planning, int64_t best, int round,
                                int64_t unit = 1);

// How a planner that has one plan for each number finds the best one.
struct CountTuning {
  int64_t unit = 1;
  int64_t usual = 1;    // numbers beyond are tried one by one, as long as they help
  int64_t in_vain = 2;  // doublings that did not help, after which none will
  // No plan of so many microbatches takes less.
  std::function<double(int64_t)> bound;

  enum class Fit : uint8_t { kNone, kRecomputed, kPlain };
  struct Trial {
    Fit fit = Fit::kNone;
    double seconds = 0;  // if it fits; infinite where only is known that it is not the best
  };
  std::function<Result<Trial>(int64_t)> attempt;
};

// Ends early when the planning's deadline passes. The caller keeps the best plan.
Status TuneMicrobatches(const Planning& planning, const CountTuning& tuning);

}  // namespace heddle
