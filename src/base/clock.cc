#include "base/clock.h"

#include <time.h>

#include <cerrno>

#include "base/futex.h"

namespace heddle {
namespace {

class MachineClock final : public Clock {
 public:
  Time Now() override { return std::chrono::steady_clock::now(); }

  // Whatever signals come.
  void SleepUntil(Time time) override {
    constexpr int64_t kSecond = 1'000'000'000;
    const int64_t nanoseconds = NanosecondsOf(time);
    const timespec until{nanoseconds / kSecond, nanoseconds % kSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }

  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            Time until) override {
    if (until == kNever) return changed.wait(lock);
    changed.wait_until(lock, until);
  }
  void NotifyAll(std::condition_variable& changed) override { changed.notify_all(); }

  bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, Duration most) override {
    return heddle::WaitForChange(word, seen, std::chrono::nanoseconds(most).count());
  }

  std::thread Start(std::function<void()> work) override { return std::thread(std::move(work)); }
  void Join(std::vector<std::thread>& threads) override {
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

Clock& RealClock() {
  static MachineClock clock;
  return clock;
}

}  // namespace heddle
