// AttendedClock: time as somebody saw it who looks again and again. While he himself was stopped,
// or the machine gave him no processor, he saw nothing, and may not hold it against those he
// watches.
//
//   AttendedClock clock(Clock::now(), silence);
//   while (…) vigil.Look(sign, clock.At(Clock::now()));    // a pause of 6 s counts as 1 s
#pragma once

#include <algorithm>
#include <chrono>

namespace heddle {

class AttendedClock {
 public:
  using Clock = std::chrono::steady_clock;

  // A pause counts as half of `silence` at most, and as no more than a second.
  AttendedClock(Clock::time_point start, Clock::duration silence)
      : last_(start),
        attended_(start),
        most_(std::min<Clock::duration>(std::chrono::seconds(1), silence / 2)) {}

  Clock::time_point At(Clock::time_point now) {
    pause_ = now - last_;
    attended_ += std::min(pause_, most_);
    last_ = now;
    return attended_;
  }
  // Between the last two looks.
  Clock::duration pause() const { return pause_; }

 private:
  Clock::time_point last_, attended_;
  Clock::duration most_, pause_{};
};

}  // namespace heddle
