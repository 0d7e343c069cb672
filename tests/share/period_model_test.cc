#include "turns/period_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "share/completion.h"

namespace heddle {
namespace {

JobTimes Times(double compute, double communicate) {
  return {Seconds{compute}, Seconds{communicate}, Seconds{communicate}};
}

std::vector<JobTimes> AnyJobs() {
  std::vector<JobTimes> jobs(*rc::gen::inRange<size_t>(1, 7));
  for (JobTimes& job : jobs) {
    job = Times(*rc::gen::inRange(1, 1000) / 10.0, *rc::gen::inRange(0, 1000) / 10.0);
    // At most as much is hidden as is computed meanwhile.
    const Seconds hidden = std::min(job.communicate, job.compute) * (*rc::gen::inRange(0, 5) / 4.0);
    job.exposed = job.communicate - hidden;
  }
  return jobs;
}

TEST(PeriodModel, EachOfThreeCanBeTheLimit) {
  EXPECT_EQ(BestPeriod(std::vector{Times(3, 1), Times(4, 2)}, Seconds{}).value, 7);
  EXPECT_EQ(BestPeriod(std::vector{Times(1, 3), Times(2, 4)}, Seconds{}).value, 7);
  EXPECT_EQ(BestPeriod(std::vector{Times(5, 4), Times(1, 1)}, Seconds{}).value, 9);
}

TEST(PeriodModel, SwitchesCountWhereThereAreTwo) {
  EXPECT_EQ(BestPeriod(std::vector{Times(3, 1), Times(4, 2)}, Seconds{1}).value, 9);
  EXPECT_EQ(BestPeriod(std::vector{Times(3, 1)}, Seconds{1}).value, 4);
}

TEST(PeriodModel, OnlyWhatIsWaitedForCountsInTheLongestJob) {
  const JobTimes overlapped{Seconds{5}, Seconds{4}, Seconds{1}};
  EXPECT_EQ(overlapped.alone().value, 6);
  EXPECT_EQ(BestPeriod(std::vector{overlapped, Times(0.5, 0.5)}, Seconds{}).value, 6);
}

TEST(PeriodModel, ASmallJobIsNotHeldUpByALargeOne) {
  const std::vector<JobTimes> jobs = {Times(1, 1), Times(10, 10)};
  const std::vector<double> rates = FairJobRates(jobs, std::vector<double>{1, 1}, Seconds{});
  // Both as fast as alone: half of the device each.
  EXPECT_NEAR(rates[0], 0.5, 1e-12);
  EXPECT_NEAR(rates[1], 0.05, 1e-12);
}

TEST(PeriodModel, WeightsDivideWhatIsShort) {
  const std::vector<JobTimes> jobs = {Times(1, 0), Times(1, 0)};
  const std::vector<double> rates = FairJobRates(jobs, std::vector<double>{3, 1}, Seconds{});
  EXPECT_NEAR(rates[0], 0.75, 1e-12);
  EXPECT_NEAR(rates[1], 0.25, 1e-12);
}

RC_GTEST_PROP(PeriodModel, RatesKeepTheLimitsAndLeaveNothing, ()) {
  const std::vector<JobTimes> jobs = AnyJobs();
  std::vector<double> weights;
  for (size_t j = 0; j < jobs.size(); ++j) weights.push_back(*rc::gen::inRange(1, 9) / 2.0);
  const std::vector<double> rates = FairJobRates(jobs, weights, Seconds{});
  double device = 0, network = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    device += rates[j] * jobs[j].compute.value;
    network += rates[j] * jobs[j].communicate.value;
  }
  RC_ASSERT(device <= 1 + 1e-9);
  RC_ASSERT(network <= 1 + 1e-9);
  for (size_t j = 0; j < jobs.size(); ++j) {
    const double speed = rates[j] * jobs[j].alone().value;
    RC_ASSERT(speed <= 1 + 1e-9);
    // Who is slower than alone uses something that is full.
    const bool held_up = device > 1 - 1e-9 || (network > 1 - 1e-9 && jobs[j].communicate.value > 0);
    RC_ASSERT(speed > 1 - 1e-9 || held_up);
  }
}

RC_GTEST_PROP(PeriodModel, OneIterationEachIsOneChoiceOfRates, ()) {
  const std::vector<JobTimes> jobs = AnyJobs();
  const double period = BestPeriod(jobs, Seconds{}).value;
  double device = 0, network = 0, gain = 0;
  for (const JobTimes& job : jobs) {
    device += job.compute.value / period;
    network += job.communicate.value / period;
    gain += job.alone().value / period;
    RC_ASSERT(job.alone().value <= period * (1 + 1e-9));
  }
  RC_ASSERT(device <= 1 + 1e-9);
  RC_ASSERT(network <= 1 + 1e-9);
  RC_ASSERT(gain <= 2 + 1e-9);
}

// Two equal jobs are done earlier in the mean only where neither device nor network dominates.
RC_GTEST_PROP(PeriodModel, MeanCompletionImprovesBetweenAThirdAndThree, ()) {
  const double compute = *rc::gen::inRange(1, 1000) / 100.0;
  const double communicate = *rc::gen::inRange(1, 4000) / 100.0;
  const double ratio = communicate / compute;
  RC_PRE(std::abs(ratio - 3) > 1e-6 && std::abs(ratio - 1.0 / 3) > 1e-6);
  const std::vector<JobTimes> jobs(2, Times(compute, communicate));
  const std::vector<JobLength> lengths(2, JobLength{100, jobs[0].alone(), 1, 0});
  const Result<Completion> together = Together(lengths, [&](const std::vector<size_t>& active) {
    const std::vector<JobTimes> left(active.size(), jobs[0]);
    return Result<std::vector<Seconds>>(
        std::vector<Seconds>(active.size(), BestPeriod(left, Seconds{})));
  });
  RC_ASSERT(together.ok());
  const bool better = together.value().mean < OneAfterTheOther(lengths).mean;
  RC_ASSERT(better == (ratio > 1.0 / 3 && ratio < 3));
}

TEST(CompletionTest, TheShorterAndTheMoreUrgentFirst) {
  const std::vector<JobLength> jobs = {{10, Seconds{1}, 1, 0}, {2, Seconds{1}, 1, 0}};
  EXPECT_EQ(OneAfterTheOther(jobs).done[1].value, 2);
  EXPECT_EQ(OneAfterTheOther(jobs).mean.value, 7);
  const std::vector<JobLength> urgent = {{10, Seconds{1}, 1, 1}, {2, Seconds{1}, 1, 0}};
  EXPECT_EQ(OneAfterTheOther(urgent).done[0].value, 10);
  EXPECT_EQ(OneAfterTheOther(urgent).done[1].value, 12);
}

TEST(CompletionTest, WhoIsLeftGoesOnAtItsOwnPace) {
  const std::vector<JobLength> jobs = {{10, Seconds{1}, 1, 0}, {4, Seconds{1}, 1, 0}};
  // 1.5 s per step for two, 1 s for one: 4 steps of both, then 6 of the first.
  const Result<Completion> together = Together(jobs, [](const std::vector<size_t>& active) {
    return Result<std::vector<Seconds>>(
        std::vector<Seconds>(active.size(), Seconds{active.size() == 2 ? 1.5 : 1.0}));
  });
  ASSERT_TRUE(together.ok());
  EXPECT_NEAR(together.value().done[1].value, 6, 1e-12);
  EXPECT_NEAR(together.value().done[0].value, 12, 1e-12);
  EXPECT_NEAR(together.value().mean.value, 9, 1e-12);
}

}  // namespace
}  // namespace heddle
