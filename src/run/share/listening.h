// Listening: whether somebody who should give signs of life still does.
//
//   Listening listening(std::chrono::milliseconds(1500));
//   if (listening.IsSilent(beats, now)) …              // asked many times a second
//
// Only time in which the listener itself was awake counts: who was stopped, or suspended with the
// whole machine, has heard nothing and blames nobody.
#pragma once

#include <cstdint>
#include <optional>

#include "run/attended_clock.h"

namespace heddle {

class Listening {
 public:
  explicit Listening(Clock::Duration patience) : patience_(patience) {}

  // `beats` goes up while the other one lives. Before the first there is no silence.
  bool IsSilent(int64_t beats, Clock::Time now) {
    if (!clock_) clock_.emplace(now, patience_);
    const Clock::Time seen = clock_->At(now);
    if (beats != beats_ || beats == 0) {
      beats_ = beats;
      heard_ = seen;
    }
    return seen - heard_ > patience_;
  }

 private:
  Clock::Duration patience_;
  std::optional<AttendedClock> clock_;
  int64_t beats_ = 0;
  Clock::Time heard_{};
};

}  // namespace heddle
