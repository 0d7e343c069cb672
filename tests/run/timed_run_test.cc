#include "run/timed_run.h"

#include <gtest/gtest.h>

#include <map>

#include "program/text/program_text.h"

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

TEST(TimedRunTest, ComputesAndMessagesTakeTheirModelledTime) {
  const auto program = ParseProgram(kTwoStages, "two");
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  Emulation emulation({{0.01, 0}, {0, 0.01}}, {0, 0}, {}, std::make_unique<FixedRate>(1e9), 1);
  const auto result = RunTimed(program.value(), emulation, {.steps = 1, .dilation = 3});
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  ASSERT_EQ(result.value().seconds.size(), 1U);
  EXPECT_GE(result.value().seconds[0], 0.0299);  // a busy machine oversleeps
  EXPECT_EQ(result.value().timeline.source, "emulated");
  EXPECT_EQ(result.value().timeline.events.size(), 2U);
  EXPECT_TRUE(Validate(result.value().timeline).ok());
}

TEST(TimedRunTest, StepsOverlapAndStopWhenAsked) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  Emulation emulation({{0.01, 0}, {0, 0.01}}, {0, 0}, {}, std::make_unique<FixedRate>(1e9), 1);
  int asked = 0;
  TimedOptions options{.steps = 1000, .dilation = 1};
  options.interrupted = [&] { return ++asked > 2; };
  const auto result = RunTimed(program, emulation, options);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result.value().seconds.size(), 1U);
  EXPECT_LT(result.value().seconds.size(), 1000U);
}

TEST(TimedRunTest, TimeGoesSlowerWhereSleepIsTooCoarse) {
  const Program program = ParseProgram(kTwoStages, "two").value();
  Emulation fine({{1e-5, 0}, {0, 1e-5}}, {0, 0}, {}, std::make_unique<FixedRate>(1e9), 1);
  EXPECT_NEAR(DilationFor(program, fine, 1e-4), 200, 1e-6);
  Emulation coarse({{1, 0}, {0, 1}}, {0, 0}, {}, std::make_unique<FixedRate>(1e9), 1);
  EXPECT_EQ(DilationFor(program, coarse, 2), 1);
}

}  // namespace
}  // namespace heddle
