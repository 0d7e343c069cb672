// AttendedClock: time as somebody saw it who looks again and again. While he himself was stopped,
// or the machine gave him no processor, he saw nothing, and may not hold it against those he
// watches.
//
//   AttendedClock attended(clock.Now(), silence);
//   while (…) vigil.Look(sign, attended.At(clock.Now()));    // a pause of 6 s counts as 1 s
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace heddle {

class AttendedClock {
 public:
  // A pause counts as half of `silence` at most, and as no more than a second.
  AttendedClock(Clock::Time start, Clock::Duration silence)
      : last_(start),
        attended_(start),
        most_(std::min<Clock::Duration>(std::chrono::seconds(1), silence / 2)) {}

  Clock::Time At(Clock::Time now) {
    pause_ = now - last_;
    attended_ += std::min(pause_, most_);
    last_ = now;
    return attended_;
  }
  // Between the last two looks.
  Clock::Duration pause() const { return pause_; }

 private:
  Clock::Time last_, attended_;
  Clock::Duration most_, pause_{};
};

}  // namespace heddle
