// Clock: time, and all ways to let it pass. What waits, watches or paces is given one, so that
// tests can give it theirs, in which hours pass in no time (tests/support/fake_clock.h).
//
//   Clock& clock = RealClock();
//   const Clock::Time start = clock.Now();
//   clock.SleepFor(std::chrono::milliseconds(20));
//   std::thread watcher = clock.Start([&] { … });
//
// Threads that share a clock and wait for each other do so by Wait and NotifyAll: a clock that is
// not the machine's must know who sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = Time::duration;
  static constexpr Time kNever = Time::max();

  virtual ~Clock() = default;
  virtual Time Now() = 0;
  virtual void SleepUntil(Time time) = 0;
  // Until notified, or until then; it may also return for no reason, as condition variables do.
  virtual void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                    Time until) = 0;
  virtual void NotifyAll(std::condition_variable& changed) = 0;
  // Of a word in memory that other processes may share (base/futex.h). True if it changed.
  virtual bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, Duration most) = 0;
  // A thread that lives by this clock.
  virtual std::thread Start(std::function<void()> work) = 0;
  // Waits for such threads. Who has started some and joins them by itself is not seen to wait, and
  // time could pass before the last of them has begun.
  virtual void Join(std::vector<std::thread>& threads) = 0;

  void SleepFor(Duration duration) { SleepUntil(Now() + duration); }
};

// The machine's, which does not jump and does not stop.
Clock& RealClock();

inline double SecondsIn(Clock::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline Clock::Duration InNanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5)));
}

// For times that processes tell each other.
inline int64_t NanosecondsOf(Clock::Time time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}
inline Clock::Time TimeOf(int64_t nanoseconds) {
  return Clock::Time(std::chrono::nanoseconds(nanoseconds));
}

}  // namespace heddle
