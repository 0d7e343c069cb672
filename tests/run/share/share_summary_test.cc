#include "run/share/share_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

JobRun Ran(const std::string& name, int64_t began, int64_t ended, std::vector<uint64_t> hashes) {
  JobRun run;
  run.outcome = {name, 0, true, "", began * kMs, ended * kMs};
  run.ranks.emplace_back();
  run.ranks[0].hashes = std::move(hashes);
  return run;
}

// `count` steps of `step` ms after a first one of `cold`, the device held for `held` of each.
JobRun Stepping(const std::string& name, int64_t began, int64_t cold, int count, int64_t step,
                int64_t held) {
  JobRun run = Ran(name, began, began + cold + count * step, {1});
  RankNotes& rank = run.ranks[0];
  for (int k = 0; k <= count; ++k) {
    rank.step_ends.push_back((began + cold + k * step) * kMs);
    rank.held.push_back((cold + k * held) * kMs);
  }
  return run;
}

// Alone 20 and 10 ms a step, in turns 24 ms; paced to half the speed.
ShareRuns Pair(int steps) {
  ShareRuns runs;
  runs.alone = {Stepping("a", 100, 500, steps, 20, 12), Stepping("b", 5000, 500, steps, 10, 6)};
  runs.shared = {Stepping("a", 10000, 500, steps, 24, 12), Stepping("b", 10000, 510, steps, 24, 6)};
  runs.groups = {{{0, 1}, true}};
  runs.parts = {{0.006, 0.004}, {0.003, 0.002}};
  runs.dilation = 2;
  runs.devices = 1;
  return runs;
}

TEST(ShareSummary, TheBoundIsTheFullestResource) {
  const auto bound = [](std::vector<StepParts> jobs) { return PeriodBound(jobs); };
  EXPECT_DOUBLE_EQ(bound({{3, 8}, {3, 8}}), 16);
  EXPECT_DOUBLE_EQ(bound({{20, 1}, {20, 1}}), 40);
  EXPECT_DOUBLE_EQ(bound({{5, 5}, {1, 1}}), 10);
}

TEST(ShareSummary, SecondsOfTheModelledCluster) {
  const ShareSummary summary = Summarise(Pair(40));
  EXPECT_DOUBLE_EQ(summary.serial_seconds, (0.5 + 40 * 0.02 + 0.5 + 40 * 0.01) / 2);
  EXPECT_DOUBLE_EQ(summary.shared_seconds, (0.51 + 40 * 0.024) / 2);
  ASSERT_TRUE(summary.gain);
  EXPECT_NEAR(summary.gain->mean, 30.0 / 24, 1e-9) << "without their first steps";
  EXPECT_EQ(summary.gain_limit, 2);
  EXPECT_NEAR(summary.jobs[0].slowdown->mean, 1.2, 1e-9);
  EXPECT_NEAR(summary.jobs[1].slowdown->mean, 2.4, 1e-9);
  EXPECT_NEAR(summary.jobs[0].shared_step_seconds, 0.012, 1e-12);
  EXPECT_NEAR(summary.period->mean, 0.012, 1e-12);
  EXPECT_DOUBLE_EQ(summary.period_bound, 0.01);
  EXPECT_NEAR(summary.serial_use.devices, 18.0 / 30, 1e-9);
  EXPECT_NEAR(summary.shared_use.devices, 18.0 / 24, 1e-9);
  EXPECT_NEAR(summary.serial_use.network, 12.0 / 30, 1e-9);
  EXPECT_NEAR(summary.shared_use.network, 12.0 / 24, 1e-9);
  EXPECT_TRUE(summary.enough_turns());
  EXPECT_TRUE(summary.hashes_equal());
  EXPECT_THAT(ShareSummaryText(summary), HasSubstr("gain        1.25 [1.25, 1.25] of at most 2"));
  EXPECT_EQ(ShareSummaryToJson(summary)["valid"], true);
}

TEST(ShareSummary, TooFewTurnsAreSaidToBe) {
  const ShareSummary summary = Summarise(Pair(12));
  EXPECT_FALSE(summary.enough_turns());
  EXPECT_THAT(ShareSummaryText(summary), HasSubstr("TOO FEW, 30 are enough"));
  const Json json = ShareSummaryToJson(summary);
  EXPECT_EQ(json["enough_turns"], false);
  EXPECT_EQ(json["valid"], false);
  EXPECT_LE(json["steady_turns"], 12);
  const Json nothing = ShareSummaryToJson(Summarise(Pair(2)));
  EXPECT_TRUE(nothing["measured_gain"].is_null());
}

// What a busy machine measured: jobs alone took longer than jobs that share.
TEST(ShareSummary, NoImpossibleGainIsPrinted) {
  ShareRuns runs = Pair(40);
  runs.alone = {Stepping("a", 100, 500, 40, 40, 12), Stepping("b", 5000, 500, 40, 33, 6)};
  const ShareSummary summary = Summarise(runs);
  const std::string text = ShareSummaryText(summary);
  EXPECT_THAT(text, HasSubstr("none can be stated"));
  EXPECT_THAT(text, Not(HasSubstr("times as long as alone")));
  EXPECT_TRUE(ShareSummaryToJson(summary)["measured_gain"].is_null());
  EXPECT_TRUE(ShareSummaryToJson(summary)["jobs"][0]["slowdown"].is_null());
}

TEST(ShareSummary, ABusyMachineIsSaidToBe) {
  ShareRuns runs = Pair(40);
  runs.alone[0].ranks[0].deadlines = runs.shared[0].ranks[0].deadlines = 100;
  runs.shared[0].ranks[0].missed = 2;
  EXPECT_EQ(ShareSummaryToJson(Summarise(runs))["valid"], true) << "1% is";
  runs.alone[0].ranks[0].missed = 1;
  const ShareSummary summary = Summarise(runs);
  EXPECT_THAT(ShareSummaryText(summary), HasSubstr("NOT VALID: the machine was too busy"));
  EXPECT_THAT(ShareSummaryText(summary), HasSubstr("--dilate 4"));
  EXPECT_EQ(ShareSummaryToJson(summary)["valid"], false);
}

TEST(ShareSummary, GroupsFollowEachOther) {
  ShareRuns runs = Pair(40);
  runs.alone.push_back(Stepping("c", 9000, 100, 80, 10, 6));
  runs.shared.push_back(Stepping("c", 11000, 100, 80, 10, 6));
  runs.groups.push_back({{2}, true});
  runs.parts.push_back({0.003, 0.002});
  const ShareSummary summary = Summarise(runs);
  // 40 · 30 ms alone take 40 · 24 shared (and 41 steps are made); c's 81 steps of 10 stay.
  EXPECT_NEAR(summary.gain->mean, (41.0 * 30 + 81 * 10) / (41.0 * 24 + 81 * 10), 1e-9);
  EXPECT_NEAR(summary.period->mean, 0.012 + 0.005, 1e-12);
  EXPECT_DOUBLE_EQ(summary.period_bound, 0.01 + 0.005);
}

TEST(ShareSummary, MeasuredPartsAreOfWarmSteps) {
  const StepParts parts = MeasuredParts(Stepping("a", 0, 500, 40, 20, 12));
  EXPECT_NEAR(parts.compute, 0.012, 1e-12);
  EXPECT_NEAR(parts.network, 0.008, 1e-12);
}

TEST(ShareSummary, OneBitIsADifference) {
  const JobRun alone = Ran("a", 1, 2, {1, 2, 3});
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2, 3})), true);
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2, 4})), false);
  EXPECT_EQ(SameHashes(alone, Ran("a", 1, 2, {1, 2})), false) << "a step is missing";
  EXPECT_EQ(SameHashes(alone, JobRun{}), std::nullopt);
}

TEST(ShareSummary, AFailedJobIsNamedAndLeavesNoGain) {
  ShareRuns runs;
  runs.alone = {Ran("a", 1, 2, {1}), Ran("b", 1, 2, {1})};
  runs.shared = {Ran("a", 1, 3, {1}), JobRun{}};
  runs.shared[1].outcome = {"b", 1, false, "device 0 was killed", 1 * kMs, 2 * kMs};
  runs.groups = {{{0, 1}, true}};
  const ShareSummary summary = Summarise(runs);
  ASSERT_NE(summary.failed(), nullptr);
  EXPECT_EQ(summary.failed()->name, "b");
  EXPECT_FALSE(summary.gain);
  EXPECT_TRUE(summary.hashes_equal()) << "those of the job that went on";
  EXPECT_THAT(ShareSummaryText(summary), HasSubstr("failed: device 0 was killed"));
}

}  // namespace
}  // namespace heddle
