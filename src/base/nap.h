// Nap: the pauses of a thread that somebody else may end at any moment.
//
//   while (nap.For(std::chrono::milliseconds(50))) Beat();         // its thread
//   nap.End();                                                     // another one
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace heddle {

class Nap {
 public:
  explicit Nap(Clock& clock) : clock_(clock) {}

  // False as soon as it has been ended.
  bool For(Clock::Duration duration) {
    const Clock::Time until = clock_.Now() + duration;
    std::unique_lock lock(mutex_);
    while (!ended_ && clock_.Now() < until) clock_.Wait(changed_, lock, until);
    return !ended_;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    clock_.NotifyAll(changed_);
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

}  // namespace heddle
