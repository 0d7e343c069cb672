#include "run/share/listening.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Listening, SilenceIsWhatWasListenedTo) {
  Listening listening(milliseconds(1500));
  Clock::Time now{seconds(1000)};
  EXPECT_FALSE(listening.IsSilent(7, now));
  int looks = 0;
  while (!listening.IsSilent(7, now += milliseconds(100))) ++looks;
  EXPECT_EQ(looks, 15);
  EXPECT_FALSE(listening.IsSilent(8, now += milliseconds(100))) << "it is back";
}

TEST(Listening, OnesOwnPauseIsNobodysSilence) {
  Listening listening(milliseconds(1500));
  Clock::Time now{seconds(1000)};
  EXPECT_FALSE(listening.IsSilent(7, now));
  EXPECT_FALSE(listening.IsSilent(7, now += seconds(3600))) << "suspended with the machine";
  EXPECT_FALSE(listening.IsSilent(7, now += milliseconds(100)));
  EXPECT_FALSE(listening.IsSilent(8, now += milliseconds(100)));
}

TEST(Listening, BeforeTheFirstSignThereIsNoSilence) {
  Listening listening(milliseconds(1500));
  Clock::Time now{seconds(1000)};
  for (int k = 0; k < 100; ++k) EXPECT_FALSE(listening.IsSilent(0, now += milliseconds(100)));
}

}  // namespace
}  // namespace heddle
