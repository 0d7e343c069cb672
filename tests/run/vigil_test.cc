#include "run/vigil.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = Vigil::Verdict;

class VigilTest : public testing::Test {
 protected:
  // A beat each 100 ms for `time`, at one place. The last verdict.
  Verdict Stay(seconds time, int64_t place, bool computing, bool beats = true) {
    Verdict verdict = Verdict::kWell;
    for (const auto end = now_ + time; now_ < end; now_ += milliseconds(100)) {
      if (beats) ++beats_;
      verdict = vigil_.Look({beats_, place, computing}, now_);
    }
    return verdict;
  }

  Vigil::Clock::time_point now_{};
  int64_t beats_ = 0;
  Vigil vigil_{seconds(5), now_};
};

TEST_F(VigilTest, SilenceIsNoticed) {
  EXPECT_EQ(Stay(seconds(2), 1, true), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(4), 1, true, false), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(2), 1, true, false), Verdict::kSilent);
}

TEST_F(VigilTest, OneThatComputesForTooLongIsStuck) {
  Stay(seconds(1), 1, false);
  EXPECT_EQ(Stay(seconds(60), 2, true), Verdict::kWell);  // the first: nothing to compare with
  EXPECT_EQ(Stay(seconds(1), 3, false), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(590), 4, true), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(15), 4, true), Verdict::kStuck);
}

TEST_F(VigilTest, ShortInstructionsAreJudgedAfterEightSeconds) {
  for (int64_t place = 0; place < 10; ++place) Stay(seconds(1), place, true);
  EXPECT_EQ(Stay(seconds(9), 20, true), Verdict::kWell);  // ten times a second
  EXPECT_EQ(Stay(seconds(2), 20, true), Verdict::kStuck);
}

// Whoever waits for others may wait for long: saving, evaluating.
TEST_F(VigilTest, WaitingIsNotStuck) {
  Stay(seconds(1), 1, true);
  EXPECT_EQ(Stay(seconds(1000), 2, false), Verdict::kWell);
}

}  // namespace
}  // namespace heddle
