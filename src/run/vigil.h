// Watching one device from outside: does it still answer, and does it get on?
//
// What a piece of work should take is known once it was seen to end, and predicted before. A device
// is stuck when it stays at one for `patience` times as long: without using the processor, or using
// it all the while. On a busy machine it uses the processor now and then: that is slow, not stuck.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/clock.h"

namespace heddle {

// What a device shows of itself at one moment.
struct SignOfLife {
  static constexpr int64_t kNoWork = -1;

  int64_t beats = 0;       // goes up as long as the process answers
  int64_t place = 0;       // WorkerProgress::packed
  int64_t work = kNoWork;  // the segment it computes; none while it waits or between parts
  double predicted = 0;    // seconds of that segment on a slow processor
  double cpu_seconds = 0;  // that its process has used so far
};

class Vigil {
 public:
  enum class Verdict { kWell, kSilent, kStuck };

  // `patience` 0: nobody is ever stuck.
  Vigil(std::chrono::milliseconds silence, double patience, Clock::Time now)
      : silence_(silence), patience_(patience), heard_(now), moved_(now), busy_(now) {}

  // Silent: no beat for `silence`. Stuck: see above, and for kStuckLeast at least.
  Verdict Look(const SignOfLife& sign, Clock::Time now);

  static constexpr double kStuckLeast = 8;  // seconds
  // Whoever uses less of the processor is idle: beating costs less.
  static constexpr double kBusyShare = 0.01;

 private:
  void SeeWork(const SignOfLife& sign, Clock::Time now);

  std::chrono::milliseconds silence_;
  double patience_;
  SignOfLife last_;
  Clock::Time heard_, moved_;
  Clock::Time busy_;                             // when it was last seen to use the processor
  double busy_cpu_ = 0;                          // its seconds by then
  double moved_cpu_ = 0;                         // and when it came to where it is
  std::unordered_map<int64_t, double> longest_;  // seconds of each work that was seen to end
};

}  // namespace heddle
