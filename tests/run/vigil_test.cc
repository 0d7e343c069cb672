#include "run/vigil.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = Vigil::Verdict;

class VigilTest : public testing::Test {
 protected:
  // What the device does meanwhile.
  struct Doing {
    int64_t work = SignOfLife::kNoWork;
    double uses = 1;  // of the processor
    double predicted = 0;
    bool beats = true;
  };

  // A beat each 100 ms for `time`, at one place. The last verdict.
  Verdict Stay(seconds time, int64_t place, Doing doing) {
    Verdict verdict = Verdict::kWell;
    for (const auto end = now_ + time; now_ < end; now_ += milliseconds(100)) {
      if (doing.beats) ++beats_;
      cpu_ += 0.1 * doing.uses;
      verdict = vigil_.Look({beats_, place, doing.work, doing.predicted, cpu_}, now_);
    }
    return verdict;
  }
  static Doing Work(int64_t segment, double uses = 1) { return {segment, uses}; }

  Clock::Time now_{};
  int64_t beats_ = 0;
  double cpu_ = 0;
  Vigil vigil_{seconds(5), 10, now_};
};

TEST_F(VigilTest, SilenceIsNoticed) {
  EXPECT_EQ(Stay(seconds(2), 1, Work(0)), Verdict::kWell);
  Doing silent = Work(0);
  silent.beats = false;
  EXPECT_EQ(Stay(seconds(4), 1, silent), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(2), 1, silent), Verdict::kSilent);
}

// The first forward of a large model takes minutes on a small machine: that was predicted.
TEST_F(VigilTest, WorkThatIsLargeMayTakeLong) {
  Doing large = Work(0);
  large.predicted = 500;
  EXPECT_EQ(Stay(seconds(4900), 1, large), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(200), 1, large), Verdict::kStuck);
}

TEST_F(VigilTest, WhatWasMeasuredCountsMoreThanWhatWasPredicted) {
  Doing first = Work(7);
  first.predicted = 1e6;
  EXPECT_EQ(Stay(seconds(60), 1, first), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(1), 2, {}), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(590), 3, first), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(15), 3, first), Verdict::kStuck);
}

// Each piece of work has its own measure: a short one says nothing about a long one.
TEST_F(VigilTest, PiecesOfWorkAreNotCompared) {
  for (int64_t place = 0; place < 10; ++place) Stay(seconds(1), place, Work(1));
  Doing other = Work(2);
  other.predicted = 30;
  EXPECT_EQ(Stay(seconds(290), 20, other), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(1), 21, {}), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(9), 22, Work(1)), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(2), 22, Work(1)), Verdict::kStuck);  // ten times a second
}

TEST_F(VigilTest, NobodyIsStuckBeforeEightSeconds) {
  EXPECT_EQ(Stay(seconds(7), 1, Work(0, 0)), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(2), 1, Work(0, 0)), Verdict::kStuck);  // and does not compute
}

// Eight busy neighbours: a tenth of the processor, ten times as long.
TEST_F(VigilTest, ABusyMachineIsSlowNotStuck) {
  Stay(seconds(2), 1, Work(0));
  Stay(seconds(1), 2, {});
  EXPECT_EQ(Stay(seconds(150), 3, Work(0, 0.1)), Verdict::kWell);
  EXPECT_EQ(Stay(seconds(60), 3, Work(0, 0.1)), Verdict::kStuck);  // twice what it should use
}

// Whoever waits for others may wait for long: saving, evaluating, a peer that computes.
TEST_F(VigilTest, WaitingIsNotStuck) {
  Stay(seconds(1), 1, Work(0));
  EXPECT_EQ(Stay(seconds(100000), 2, {SignOfLife::kNoWork, 0}), Verdict::kWell);
}

TEST_F(VigilTest, PatienceMayBeEndless) {
  Vigil patient(seconds(5), 0, now_);
  SignOfLife sign{1, 1, 0, 0, 0};
  for (int k = 0; k < 1000; ++k) {
    now_ += seconds(1);
    ++sign.beats;
    EXPECT_EQ(patient.Look(sign, now_), Verdict::kWell);
  }
}

}  // namespace
}  // namespace heddle
