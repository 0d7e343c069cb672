#include "run/timed_run.h"

#include <gtest/gtest.h>

#include <map>

#include "program/text/program_text.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

// Every message takes its bytes over this many bytes a second, whatever else is under way.
class FixedRate final : public NetworkModel {
 public:
  explicit FixedRate(double bytes_per_second) : rate_(bytes_per_second) {}
  void StartMessage(int32_t id, int32_t, int32_t, Bytes bytes, double now) override {
    due_.emplace(now + static_cast<double>(bytes.value) / rate_, id);
  }
  void StartCollective(int32_t id, CollectiveKind, CollectiveAlgorithm, int32_t,
                       const std::vector<Bytes>& sizes, double now) override {
    due_.emplace(now + static_cast<double>(sizes[0].value) / rate_, id);
  }
  double NextTime() const override {
    return due_.empty() ? std::numeric_limits<double>::infinity() : due_.begin()->first;
  }
  void Advance(double now, std::vector<int32_t>& done) override {
    while (!due_.empty() && due_.begin()->first <= now) {
      done.push_back(due_.begin()->second);
      due_.erase(due_.begin());
    }
  }

 private:
  double rate_;
  std::multimap<double, int32_t> due_;
};

// Two stages of 10 ms, a message of 10 MB between them at 1 GB/s: 30 ms.
constexpr char kTwoStages[] = R"(heddle-program 1
strategy hand
samples 1 as 1
updates 0
layers 0
device 0 "a:0"
device 1 "b:0"
tensor x f32[1,2500000] activation
segment F0 forward
  writes x#
segment F1 forward
  consumes x#
body
on 0
  compute F0 #0
  send x#0 to 1 tag 0
  free x#0
on 1
  recv x#0 from 0 tag 0
  compute F1 #0
)";

EmulationModel TwoStages(double compute_seconds = 0.01) {
  return {{{compute_seconds, 0}, {0, compute_seconds}},
          {0, 0},
          {},
          std::make_unique<FixedRate>(1e9),
          1};
}

TEST(TimedRunTest, ComputesAndMessagesTakeTheirModelledTime) {
  const auto program = ParseProgram(kTwoStages, "two");
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  FakeClock clock;
  Emulation emulation(TwoStages(), clock);
  const Clock::Time start = clock.Now();
  const auto result = RunTimed(program.value(), emulation, {.steps = 1, .dilation = 3});
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  ASSERT_EQ(result.value().seconds.size(), 1U);
  EXPECT_NEAR(result.value().seconds[0], 0.03, 1e-6);
  EXPECT_NEAR(SecondsIn(clock.Now() - start), 0.09, 1e-6);
  EXPECT_EQ(result.value().missed, 0);
  EXPECT_EQ(result.value().timeline.source, "emulated");
  EXPECT_EQ(result.value().timeline.events.size(), 2U);
  EXPECT_TRUE(Validate(result.value().timeline).ok());
}

// A device's own time for the bytes it moves, on both sides: 10 MB at 2 GB/s each, at the same time
// as the message.
TEST(TimedRunTest, MovingBytesTakesTheDevicesOwnTime) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  EmulationModel model = TwoStages();
  model.message_seconds = {5e-10, 5e-10};
  FakeClock clock;
  Emulation emulation(std::move(model), clock);
  const auto result = RunTimed(program, emulation, {.steps = 1, .dilation = 100});
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result.value().seconds[0], 0.03, 1e-4) << "the message takes longer";
}

// A machine that wakes threads up late by up to 3 ms.
class LateClock final : public Clock {
 public:
  Time Now() override { return inner_.Now(); }
  void SleepUntil(Time time) override { inner_.SleepUntil(time + std::chrono::milliseconds(3)); }
  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            Time until) override {
    inner_.Wait(changed, lock, until);
  }
  void NotifyAll(std::condition_variable& changed) override { inner_.NotifyAll(changed); }
  bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, Duration most) override {
    return inner_.WaitForChange(word, seen, most);
  }
  std::thread Start(std::function<void()> work) override { return inner_.Start(std::move(work)); }
  void Join(std::vector<std::thread>& threads) override { inner_.Join(threads); }

 private:
  FakeClock inner_;
};

TEST(TimedRunTest, WhoWakesLateIsCounted) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  LateClock clock;
  Emulation emulation(TwoStages(), clock);
  const auto result = RunTimed(program, emulation, {.steps = 1, .dilation = 1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().deadlines, 2);
  EXPECT_EQ(result.value().missed, 2);
}

// Steps overlap: only the first device, which frees what it has sent, waits for the link.
TEST(TimedRunTest, StepsOverlapAndStopWhenAsked) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  FakeClock clock;
  Emulation emulation(TwoStages(), clock);
  int asked = 0;
  TimedOptions options{.steps = 1000, .dilation = 1};
  options.interrupted = [&] { return ++asked > 2; };
  const auto result = RunTimed(program, emulation, options);
  ASSERT_TRUE(result.ok());
  const std::vector<double>& seconds = result.value().seconds;
  EXPECT_EQ(seconds.size(), 1U + 17U) << "one to know what it takes, then half a second's";
  EXPECT_NEAR(seconds.front(), 0.03, 1e-6);
  EXPECT_NEAR(seconds.back(), 0.02, 1e-6);
}

TEST(TimedRunTest, TimeGoesSlowerWhereSleepIsTooCoarse) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  Emulation fine(TwoStages(1e-5));
  EXPECT_NEAR(DilationFor(program, fine, 1e-4), 200, 1e-6);
  Emulation coarse(TwoStages(1));
  EXPECT_EQ(DilationFor(program, coarse, 2), 1);
}

}  // namespace
}  // namespace heddle
