// Listening: whether somebody who should give signs of life still does.
//
//   Listening listening(std::chrono::milliseconds(1500));
//   if (listening.IsSilent(beats, now)) …              // asked many times a second
//
// Only time in which the listener itself was awake counts: who was stopped, or suspended with the
// whole machine, has heard nothing and blames nobody.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace heddle {

class Listening {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Listening(Clock::duration patience) : patience_(patience) {}

  // `beats` goes up while the other one lives. Before the first there is no silence.
  bool IsSilent(int64_t beats, Clock::time_point now) {
    constexpr Clock::duration kAwake = std::chrono::milliseconds(250);  // between two looks
    if (beats != beats_ || beats == 0) {
      beats_ = beats;
      silence_ = Clock::duration::zero();
    } else {
      silence_ += std::min(now - looked_, kAwake);
    }
    looked_ = now;
    return silence_ > patience_;
  }

 private:
  Clock::duration patience_;
  int64_t beats_ = 0;
  Clock::duration silence_{};
  Clock::time_point looked_{};
};

}  // namespace heddle
