// ComputePace: when the computes of one device end, on a cluster that is not here. The only rule
// there is, for threads and processes, alone and in a share, with arithmetic and without.
//
//   const Clock::Time start = pace.Begin();
//   …arithmetic…
//   if (!pace.End(start, modelled_seconds * dilation)) ++missed;     // else it has slept until
//   then
//
// What begins right after the last one should have ended begins at that moment: oversleeping does
// not add up.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace heddle {

class ComputePace {
 public:
  explicit ComputePace(Clock& clock) : clock_(clock) {}

  Clock::Time Begin() {
    const Clock::Time now = clock_.Now();
    return now - due_ < kRightAfter ? due_ : now;
  }

  // Until `seconds` after `start`. False if real work took longer: what follows begins after it.
  bool End(Clock::Time start, double seconds) {
    due_ = start + InNanoseconds(seconds);
    const Clock::Time now = clock_.Now();
    if (now > due_) {
      due_ = now;
      return false;
    }
    clock_.SleepUntil(due_);
    return true;
  }

  // A compute without any work. Who wakes up late has not worked too long: the next one makes up
  // for it. False if it was a millisecond or more.
  bool Pass(double seconds) {
    due_ = Begin() + InNanoseconds(seconds);
    clock_.SleepUntil(due_);
    return clock_.Now() - due_ < kRightAfter;
  }

  // Something that the next compute waits for: it begins then.
  void Arrived(Clock::Time time) { due_ = std::max(due_, time); }

 private:
  static constexpr std::chrono::milliseconds kRightAfter{1};

  Clock& clock_;
  Clock::Time due_{};  // when the last one should have ended
};

}  // namespace heddle
