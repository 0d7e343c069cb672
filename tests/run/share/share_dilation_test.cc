#include "run/share/share_dilation.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// A job of 10 ms a step, of whose two ranks each computes a millisecond in it.
CalibratedJob JobOf(int64_t steps, double took) {
  RankNotes rank;
  rank.step_ends = {1, 2, 3, 4};
  rank.longest_ratio = 6;
  rank.work = 0.003;
  rank.work_took = took * rank.work;
  return {0.01, 2, steps, {rank, rank}};
}

TEST(ShareDilation, RealWorkAndMessagesHaveRoom) {
  const std::vector<CalibratedJob> jobs = {JobOf(40, 1), JobOf(40, 1)};
  const Dilation idle = DilationFor(jobs, {true, 2});
  EXPECT_DOUBLE_EQ(idle.factor, 12) << "twice the longest ratio";
  EXPECT_DOUBLE_EQ(idle.load, 1);
  EXPECT_DOUBLE_EQ(idle.seconds, 12 * 0.01 * 40 * 2 * 2);
  EXPECT_DOUBLE_EQ(DilationFor(jobs, {false, 2}).seconds, idle.seconds / 2);
  std::vector<CalibratedJob> chatty = jobs;
  chatty[1].messages = 50;
  EXPECT_DOUBLE_EQ(DilationFor(chatty, {true, 2}).factor, 40) << "8 ms a message";
}

TEST(ShareDilation, ABusyMachineIsGivenTimeWithinAMinute) {
  const std::vector<CalibratedJob> busy = {JobOf(40, 2), JobOf(40, 2)};
  const Dilation some = DilationFor(busy, {true, 2});
  EXPECT_DOUBLE_EQ(some.load, 2);
  EXPECT_DOUBLE_EQ(some.factor, 24);
  EXPECT_DOUBLE_EQ(some.wanted, 24);
  const std::vector<CalibratedJob> overrun = {JobOf(40, 20), JobOf(40, 20)};
  const Dilation capped = DilationFor(overrun, {true, 2});
  EXPECT_DOUBLE_EQ(capped.wanted, 240);
  EXPECT_LE(capped.seconds, 45 + 1e-9);
  EXPECT_GT(capped.factor, 24);
  // Long runs take what an idle machine needs.
  const std::vector<CalibratedJob> long_ones = {JobOf(4000, 20)};
  EXPECT_DOUBLE_EQ(DilationFor(long_ones, {true, 2}).factor, 12);
}

}  // namespace
}  // namespace heddle
