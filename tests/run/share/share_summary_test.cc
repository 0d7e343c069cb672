#include "run/share/share_summary.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

constexpr int64_t kMs = 1'000'000;

JobRun Ran(const std::string& name, int64_t began, int64_t ended, std::vector<uint64_t> hashes,
           std::vector<int64_t> step_ends) {
  JobRun run;
  run.outcome = {name, 0, true, "", began * kMs, ended * kMs};
  RankNotes notes;
  notes.hashes = std::move(hashes);
  for (const int64_t end : step_ends) notes.step_ends.push_back(end * kMs);
  run.ranks = {notes};
  return run;
}

TEST(ShareSummary, TheBoundIsTheFullestResource) {
  const auto bound = [](std::vector<StepParts> jobs) { return PeriodBound(jobs); };
  EXPECT_DOUBLE_EQ(bound({{3, 8}, {3, 8}}), 16);
  EXPECT_DOUBLE_EQ(bound({{20, 1}, {20, 1}}), 40);
  EXPECT_DOUBLE_EQ(bound({{5, 5}, {1, 1}}), 10);
}

TEST(ShareSummary, SecondsOfTheModelledCluster) {
  const std::vector<JobRun> alone = {Ran("a", 100, 200, {1, 2}, {}), Ran("b", 300, 500, {3}, {})};
  const std::vector<JobRun> shared = {Ran("a", 1000, 1150, {1, 2}, {1050, 1100, 1140, 1150}),
                                      Ran("b", 1000, 1200, {3}, {1040, 1090, 1150, 1200})};
  const std::vector<StepParts> parts = {{0.01, 0.01}, {0.01, 0.02}};
  const ShareSummary summary = Summarise(alone, shared, parts, 1, 2);
  EXPECT_DOUBLE_EQ(summary.serial_seconds, 0.15);
  EXPECT_DOUBLE_EQ(summary.shared_seconds, 0.1);
  EXPECT_DOUBLE_EQ(summary.gain(), 1.5);
  EXPECT_DOUBLE_EQ(summary.serial_mean_completion, (0.05 + 0.15) / 2);
  EXPECT_DOUBLE_EQ(summary.shared_mean_completion, (0.075 + 0.1) / 2);
  EXPECT_DOUBLE_EQ(summary.jobs[0].slowdown(), 1.5);
  EXPECT_DOUBLE_EQ(summary.jobs[1].slowdown(), 1);
  EXPECT_TRUE(summary.hashes_equal());
  // Of all steps those of the first job from 1100 to 1150 are ones in which both were at work.
  EXPECT_DOUBLE_EQ(MeasuredPeriod(shared), 0.04);
}

TEST(ShareSummary, UseIsAPartOfTheTime) {
  std::vector<JobRun> alone = {Ran("a", 100, 200, {1}, {150, 200})};
  std::vector<JobRun> shared = {Ran("a", 1000, 1050, {1}, {1025, 1050})};
  alone[0].ranks[0].held = shared[0].ranks[0].held = 30 * kMs;
  const std::vector<StepParts> parts = {{0.01, 0.005}};
  const ShareSummary summary = Summarise(alone, shared, parts, 2, 0);
  EXPECT_DOUBLE_EQ(summary.serial_use.devices, 0.03 / 0.1 / 2);
  EXPECT_DOUBLE_EQ(summary.shared_use.devices, 0.03 / 0.05 / 2);
  EXPECT_DOUBLE_EQ(summary.serial_use.network, 0.01 / 0.1);
  EXPECT_DOUBLE_EQ(summary.shared_use.network, 0.01 / 0.05);
}

TEST(ShareSummary, OneBitIsADifference) {
  const JobRun alone = Ran("a", 1, 2, {1, 2, 3}, {});
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2, 3}, {})), true);
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2, 4}, {})), false);
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2}, {})), false) << "a step is missing";
  EXPECT_EQ(SameHashes(alone, JobRun{}), std::nullopt);
}

TEST(ShareSummary, AFailedJobIsNamedAndLeavesNoGain) {
  const std::vector<JobRun> alone = {Ran("a", 1, 2, {1}, {}), Ran("b", 1, 2, {1}, {})};
  std::vector<JobRun> shared = {Ran("a", 1, 3, {1}, {}), JobRun{}};
  shared[1].outcome = {"b", 1, false, "device 0 was killed", 1 * kMs, 2 * kMs};
  const ShareSummary summary = Summarise(alone, shared, {}, 1, 0);
  ASSERT_NE(summary.failed(), nullptr);
  EXPECT_EQ(summary.failed()->name, "b");
  EXPECT_EQ(summary.gain(), 0);
  EXPECT_TRUE(summary.hashes_equal()) << "those of the job that went on";
  EXPECT_NE(ShareSummaryText(summary).find("failed: device 0 was killed"), std::string::npos);
}

}  // namespace
}  // namespace heddle
