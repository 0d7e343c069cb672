#include "run/attended_clock.h"

#include <gtest/gtest.h>

#include "run/vigil.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

TEST(AttendedClockTest, APauseCountsAsASecond) {
  const Clock::Time start{};
  AttendedClock clock(start, 4s);
  EXPECT_EQ(clock.At(start + 250ms), start + 250ms);
  EXPECT_EQ(clock.At(start + 6250ms), start + 1250ms);
  EXPECT_EQ(clock.pause(), 6s);
  EXPECT_EQ(clock.At(start + 6500ms), start + 1500ms);
  AttendedClock hasty(start, 1s);
  EXPECT_EQ(hasty.At(start + 1h), start + 500ms);
}

// One that is silent while he who watches is there is noticed all the same.
TEST(AttendedClockTest, SilenceIsNoticed) {
  const Clock::Time start{};
  AttendedClock clock(start, 4s);
  Vigil vigil(4s, 10, start);
  auto now = start;
  for (int k = 0; k < 16; ++k) {
    EXPECT_EQ(vigil.Look({}, clock.At(now += 250ms)), Vigil::Verdict::kWell);
  }
  EXPECT_EQ(vigil.Look({}, clock.At(now += 250ms)), Vigil::Verdict::kSilent);
}

}  // namespace
}  // namespace heddle
