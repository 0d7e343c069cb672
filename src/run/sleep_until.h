// Sleeping until a time of the monotonic clock, whatever signals come.
#pragma once

#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

namespace heddle {

inline void SleepUntil(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec time{nanoseconds / kSecond, nanoseconds % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

inline void SleepUntil(std::chrono::steady_clock::time_point time) {
  SleepUntil(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

}  // namespace heddle
