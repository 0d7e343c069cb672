// FakeClock: time that passes only when everybody sleeps. Then it jumps to the moment at which the
// first of them wants to wake.
//
//   FakeClock clock;
//   PeerWatch watch({…, .clock = &clock});
//   clock.SleepFor(std::chrono::hours(1));      // the watch's threads do what they do in an hour
//
// The thread that makes it is one of those that may not be asleep, and so are those that it starts.
// Where the test's thread waits for the others outside of the clock, as by joining them, it says so
// by WithoutMe.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace heddle {

class FakeClock final : public Clock {
 public:
  Time Now() override {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  void SleepUntil(Time time) override {
    std::unique_lock lock(mutex_);
    if (time > now_) Sleep(lock, time, nullptr);
  }

  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& outer,
            Time until) override {
    {
      std::unique_lock lock(mutex_);
      outer.unlock();
      if (until > now_) Sleep(lock, until, &changed);
    }
    outer.lock();
  }

  void NotifyAll(std::condition_variable& changed) override {
    const std::lock_guard lock(mutex_);
    Wake([&](const Sleeper& sleeper) { return sleeper.waits_for == &changed; });
  }

  // Whoever changes the word need not know this clock: it is looked at when the time is over.
  bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, Duration most) override {
    if (word == seen) SleepFor(most);
    return word != seen;
  }

  std::thread Start(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    ++awake_;
    return std::thread([this, work = std::move(work)] {
      work();
      std::unique_lock last(mutex_);
      --awake_;
      MoveOn(last);
    });
  }

  // What `work` does, time passes without minding this thread.
  template <class Work>
  auto WithoutMe(const Work& work) {
    std::unique_lock lock(mutex_);
    --awake_;
    MoveOn(lock);
    lock.unlock();
    const Back back(*this);
    return work();
  }

  void Join(std::vector<std::thread>& threads) override {
    WithoutMe([&] {
      for (std::thread& thread : threads) thread.join();
    });
  }

  // Time in which nobody ran, as of a machine that was suspended.
  void Skip(Duration duration) {
    const std::lock_guard lock(mutex_);
    now_ += duration;
  }

  // Called after each jump, while all sleep.
  void AfterEachJump(std::function<void()> look) { look_ = std::move(look); }

 private:
  struct Sleeper {
    Time until;
    const void* waits_for = nullptr;
    bool awake = false;
    std::condition_variable wakes = {};
  };
  struct Back {
    explicit Back(FakeClock& clock) : clock_(clock) {}
    ~Back() {
      const std::lock_guard lock(clock_.mutex_);
      ++clock_.awake_;
    }
    FakeClock& clock_;
  };

  void Sleep(std::unique_lock<std::mutex>& lock, Time until, const void* waits_for) {
    Sleeper me{until, waits_for};
    sleepers_.push_back(&me);
    --awake_;
    MoveOn(lock);
    me.wakes.wait(lock, [&] { return me.awake; });
  }

  template <class Predicate>
  void Wake(const Predicate& is_one) {
    std::erase_if(sleepers_, [&](Sleeper* sleeper) {
      if (!is_one(*sleeper)) return false;
      sleeper->awake = true;
      ++awake_;  // from now on, though it has not run yet
      sleeper->wakes.notify_one();
      return true;
    });
  }

  void MoveOn(std::unique_lock<std::mutex>& lock) {
    if (awake_ > 0 || sleepers_.empty()) return;
    const auto first = std::min_element(
        sleepers_.begin(), sleepers_.end(),
        [](const Sleeper* one, const Sleeper* other) { return one->until < other->until; });
    if ((*first)->until == kNever) return;
    now_ = std::max(now_, (*first)->until);
    if (look_) {
      ++awake_;  // nobody else moves on meanwhile
      lock.unlock();
      look_();
      lock.lock();
      --awake_;
    }
    Wake([this](const Sleeper& sleeper) { return sleeper.until <= now_; });
  }

  std::mutex mutex_;
  Time now_{std::chrono::seconds(1000)};
  int awake_ = 1;
  std::vector<Sleeper*> sleepers_;
  std::function<void()> look_;
};

}  // namespace heddle
