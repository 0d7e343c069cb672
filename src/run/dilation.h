// Dilation: how much slower time must go on a cluster that is not here, so that real work and the
// machine's sleep fit into modelled time. What runs, timed runs and shares ask for together.
#pragma once

#include <algorithm>

namespace heddle {

// Seconds that a step must take at least: sleeping is exact to some 50 us.
inline constexpr double kLeastDilatedStep = 0.02;

// Work that was measured without pacing.
struct MeasuredWork {
  double longest_ratio = 0;  // real to modelled seconds of a compute, at most
  double seconds = 0;        // of a step, on all devices
};

// With room for noise: each compute within its own time, and all within a step's, on so many cores.
inline double DilationForWork(const MeasuredWork& work, double cores, double step_seconds) {
  constexpr double kRoom = 2;
  return kRoom * std::max(work.longest_ratio, work.seconds / cores / step_seconds);
}

}  // namespace heddle
