#include "base/clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/nap.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RealClockTest, SleepsNoLessThanAsked) {
  Clock& clock = RealClock();
  const Clock::Time start = clock.Now();
  clock.SleepFor(milliseconds(2));
  EXPECT_GE(clock.Now() - start, milliseconds(2));
  clock.SleepUntil(start);  // is over
}

TEST(RealClockTest, AWordThatChangesEndsTheWait) {
  std::atomic<uint32_t> word{3};
  EXPECT_FALSE(RealClock().WaitForChange(word, 3, milliseconds(1)));
  EXPECT_TRUE(RealClock().WaitForChange(word, 2, hours(1)));
}

TEST(FakeClockTest, AnHourTakesNoTime) {
  FakeClock clock;
  const Clock::Time start = clock.Now();
  clock.SleepFor(hours(1));
  EXPECT_EQ(clock.Now() - start, hours(1));
}

// Whoever wants to wake first does, whoever went to sleep first.
TEST(FakeClockTest, SleepersWakeInTheOrderOfTheirTimes) {
  FakeClock clock;
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (const int k : {5, 1, 4, 2, 3}) {
    threads.push_back(clock.Start([&, k] {
      for (int round = 0; round < 3; ++round) {
        clock.SleepFor(hours(k) - (round > 0 ? hours(k - 5) : hours(0)));
        const std::lock_guard lock(mutex);
        order.push_back(10 * round + k);
      }
    }));
  }
  clock.WithoutMe([&] {
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25}));
}

TEST(FakeClockTest, WhoIsNotifiedWakesAtOnce) {
  FakeClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock::Time woke;
  std::thread waits = clock.Start([&] {
    std::unique_lock lock(mutex);
    while (!done) clock.Wait(changed, lock, Clock::kNever);
    woke = clock.Now();
  });
  clock.SleepFor(seconds(7));
  const Clock::Time now = clock.Now();
  {
    const std::lock_guard lock(mutex);
    done = true;
    clock.NotifyAll(changed);
  }
  waits.join();
  EXPECT_EQ(woke, now);
}

TEST(FakeClockTest, AWordIsLookedAtWhenTheTimeIsOver) {
  FakeClock clock;
  std::atomic<uint32_t> word{0};
  const Clock::Time start = clock.Now();
  EXPECT_FALSE(clock.WaitForChange(word, 0, seconds(2)));
  EXPECT_EQ(clock.Now() - start, seconds(2));
  clock.AfterEachJump([&] { word = 1; });
  EXPECT_TRUE(clock.WaitForChange(word, 0, seconds(2)));
  EXPECT_TRUE(clock.WaitForChange(word, 0, seconds(2))) << "has changed before";
  EXPECT_EQ(clock.Now() - start, seconds(4));
}

TEST(NapTest, LastsItsTimeOrUntilItIsEnded) {
  FakeClock clock;
  Nap nap(clock);
  const Clock::Time start = clock.Now();
  EXPECT_TRUE(nap.For(hours(2)));
  EXPECT_EQ(clock.Now() - start, hours(2));
  std::vector<Clock::Time> beats;
  std::thread beating = clock.Start([&] {
    while (nap.For(seconds(10))) beats.push_back(clock.Now());
  });
  clock.SleepFor(seconds(35));
  nap.End();
  beating.join();
  EXPECT_EQ(beats.size(), 3U);
  EXPECT_TRUE(nap.ended());
  EXPECT_FALSE(nap.For(hours(1)));
  EXPECT_EQ(clock.Now() - start, hours(2) + seconds(35));
}

}  // namespace
}  // namespace heddle
