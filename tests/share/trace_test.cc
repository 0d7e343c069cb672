#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "share/trace_schedule.h"

namespace heddle {
namespace {

constexpr char kHeader[] = "num_gpu,submit_time,iterations,resource_time_1,resource_time_2\n";

std::string Refused(const std::string& text) {
  const Result<std::vector<TraceJob>> jobs = ParseTrace(text, "t.csv");
  EXPECT_FALSE(jobs.ok()) << text;
  if (jobs.ok()) return "";
  EXPECT_EQ(jobs.error().kind, ErrorKind::kBadInput);
  return jobs.error().ToString();
}

TEST(TraceJobs, ColumnsAreFoundByName) {
  const Result<std::vector<TraceJob>> jobs = ParseTrace(
      "name,compute_ms,ignored,communication_ms,devices,steps,arrival_ms,input_ms\r\n"
      "late,3,x,4,2,5,1000,0\r\n"
      "early,3,y,4,1,6,500,20\r\n",
      "t.csv");
  ASSERT_TRUE(jobs.ok()) << jobs.error().ToString();
  ASSERT_EQ(jobs.value().size(), 2U);
  const TraceJob& early = jobs.value()[0];
  EXPECT_EQ(early.name, "early");
  EXPECT_EQ(early.line, 3);
  EXPECT_EQ(early.arrival, 0.5);
  EXPECT_EQ(early.iterations, 6);
  EXPECT_EQ(early.alone, 0.020);  // input, read ahead
  const TraceJob& late = jobs.value()[1];
  EXPECT_EQ(late.devices, 2);
  EXPECT_NEAR(late.alone, 0.007, 1e-15);
}

TEST(TraceJobs, BadRowsAreRefusedWithTheirLine) {
  struct Case {
    std::string rows, says;
  };
  const Case cases[] = {
      {"1,0,5,2,3\n1,0,x,2,3\n", "t.csv:3: iterations: found \"x\""},
      {"1,0,5,2\n", "t.csv:2: 4 values, none for resource_time_2"},
      {"0,0,5,2,3\n", "t.csv:2: num_gpu: found \"0\""},
      {"1.5,0,5,2,3\n", "expected a whole number"},
      {"1,-1,5,2,3\n", "submit_time: found \"-1\""},
      {"1,0,5,nan,3\n", "resource_time_1: found \"nan\""},
      {"1,0,5,inf,3\n", "resource_time_1: found \"inf\""},
      {"1,0,5,,3\n", "resource_time_1: found \"\""},
      {"1,0,0,2,3\n", "iterations: found \"0\""},
      {"1,0,5,0,0\n", "an iteration takes no time"},
      {"", "has no jobs"},
  };
  for (const Case& c : cases) {
    const std::string said = Refused(kHeader + c.rows);
    EXPECT_NE(said.find(c.says), std::string::npos) << said;
  }
  EXPECT_NE(Refused("a,b\n1,2\n").find("t.csv:1: no column \"submit_time\""), std::string::npos);
  EXPECT_NE(Refused("").find("has no jobs"), std::string::npos);
}

TEST(TraceSchedule, AJobThatNeverFitsIsNamed) {
  const auto jobs = ParseTrace(std::string(kHeader) + "8,0,5,2,3\n", "t.csv");
  ASSERT_TRUE(jobs.ok());
  TraceOptions options;
  options.devices = 4;
  const Result<TraceOutcome> outcome = ScheduleTrace(jobs.value(), options);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kInfeasible);
  EXPECT_NE(outcome.error().ToString().find("line 2: job line 2 wants 8 devices"),
            std::string::npos);
}

std::vector<TraceJob> AnyTrace(int devices) {
  std::vector<TraceJob> jobs(*rc::gen::inRange<size_t>(1, 25));
  double now = 0;
  for (TraceJob& job : jobs) {
    now += *rc::gen::inRange(0, 50) / 10.0;
    job.arrival = now;
    job.devices = *rc::gen::inRange(1, devices + 1);
    job.iterations = *rc::gen::inRange(1, 100);
    // Few kinds, as in real traces, so that partners are found.
    job.needs = {*rc::gen::inRange(1, 4) / 10.0, *rc::gen::inRange(0, 4) / 10.0,
                 *rc::gen::inRange(0, 3) / 10.0};
    job.alone = std::max(job.needs[0] + job.needs[1], job.needs[2]);
  }
  return jobs;
}

RC_GTEST_PROP(TraceSchedule, NoDeviceIsGivenTwiceAndAllWorkIsDone, ()) {
  const int devices = *rc::gen::inRange(1, 9);
  const std::vector<TraceJob> jobs = AnyTrace(devices);
  std::vector<double> worked(jobs.size(), 0);
  TraceOptions options;
  options.devices = devices;
  options.policy = *rc::gen::element(TracePolicy::kFifo, TracePolicy::kShortest);
  options.crossover = *rc::gen::arbitrary<bool>();
  options.watch = [&](double start, double end, const std::vector<TraceUnit>& units) {
    int used = 0;
    std::set<int32_t> seen;
    for (const TraceUnit& unit : units) {
      used += unit.devices;
      RC_ASSERT(unit.jobs.size() <= (options.crossover ? 2U : 1U));
      std::array<double, kTraceResourceCount> load{};
      for (size_t k = 0; k < unit.jobs.size(); ++k) {
        const TraceJob& job = jobs[static_cast<size_t>(unit.jobs[k])];
        RC_ASSERT(seen.insert(unit.jobs[k]).second);
        RC_ASSERT(job.devices == unit.devices);
        RC_ASSERT(job.arrival <= start + 1e-9);
        worked[static_cast<size_t>(unit.jobs[k])] += unit.rates[k] * (end - start);
        for (size_t r = 0; r < load.size(); ++r) load[r] += unit.rates[k] * job.needs[r];
        RC_ASSERT(unit.rates[k] * job.alone <= 1 + 1e-9);
      }
      for (const double part : load) RC_ASSERT(part <= 1 + 1e-9);
    }
    RC_ASSERT(used <= devices);
  };
  const Result<TraceOutcome> outcome = ScheduleTrace(jobs, options);
  RC_ASSERT(outcome.ok());
  for (size_t j = 0; j < jobs.size(); ++j) {
    RC_ASSERT(std::abs(worked[j] - jobs[j].iterations) < 1e-6 * jobs[j].iterations + 1e-6);
    RC_ASSERT(outcome.value().done[j] >= jobs[j].arrival + jobs[j].length() - 1e-6);
  }
}

// Written anew, job by job: in order of arrival, each when enough devices are free after all
// earlier ones have begun.
std::vector<double> NaiveFifo(const std::vector<TraceJob>& jobs, int devices) {
  std::vector<double> free_at(static_cast<size_t>(devices), 0);
  std::vector<double> done;
  double begun = 0;
  for (const TraceJob& job : jobs) {
    std::sort(free_at.begin(), free_at.end());
    const auto count = static_cast<size_t>(job.devices);
    begun = std::max({begun, job.arrival, free_at[count - 1]});
    done.push_back(begun + job.length());
    std::fill(free_at.begin(), free_at.begin() + job.devices, done.back());
  }
  return done;
}

RC_GTEST_PROP(TraceSchedule, WithoutCrossoverFifoIsThePlainOne, ()) {
  const int devices = *rc::gen::inRange(1, 9);
  const std::vector<TraceJob> jobs = AnyTrace(devices);
  TraceOptions options;
  options.devices = devices;
  const std::vector<double> expected = NaiveFifo(jobs, devices);
  const Result<TraceOutcome> outcome = ScheduleTrace(jobs, options);
  RC_ASSERT(outcome.ok());
  for (size_t j = 0; j < jobs.size(); ++j) {
    RC_ASSERT(std::abs(outcome.value().done[j] - expected[j]) < 1e-6);
  }
}

// Written anew with a small fixed step: at each, the shortest rests that fit are at work.
RC_GTEST_PROP(TraceSchedule, WithoutCrossoverShortestIsThePlainOne, ()) {
  const int devices = *rc::gen::inRange(1, 5);
  std::vector<TraceJob> jobs = AnyTrace(devices);
  for (TraceJob& job : jobs) job.arrival = std::round(job.arrival);
  for (TraceJob& job : jobs) job.alone = 1, job.iterations = std::ceil(job.iterations / 10);
  std::vector<double> left, done(jobs.size(), -1);
  for (const TraceJob& job : jobs) left.push_back(job.iterations);
  for (int now = 0; std::count(done.begin(), done.end(), -1) > 0; ++now) {
    std::vector<size_t> order;
    for (size_t j = 0; j < jobs.size(); ++j) {
      if (jobs[j].arrival <= now && done[j] < 0) order.push_back(j);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return left[a] < left[b]; });
    int free = devices;
    for (const size_t j : order) {
      if (jobs[j].devices > free) continue;
      free -= jobs[j].devices;
      if (--left[j] == 0) done[j] = now + 1;
    }
  }
  TraceOptions options;
  options.devices = devices;
  options.policy = TracePolicy::kShortest;
  // Between events the order of rests may change; times in whole seconds keep those apart that
  // do not matter: compare the sums.
  const Result<TraceOutcome> outcome = ScheduleTrace(jobs, options);
  RC_ASSERT(outcome.ok());
  const double expected = std::accumulate(done.begin(), done.end(), 0.0);
  const double found =
      std::accumulate(outcome.value().done.begin(), outcome.value().done.end(), 0.0);
  RC_ASSERT(std::abs(found - expected) < 1e-6);
}

TEST(TraceSchedule, TwoThatFitTogetherShare) {
  // One computes as long as it communicates: two of them are as fast as one.
  const auto jobs = ParseTrace(std::string(kHeader) + "4,0,100,10,10\n4,0,100,10,10\n", "t.csv");
  ASSERT_TRUE(jobs.ok());
  TraceOptions options;
  options.devices = 4;
  EXPECT_NEAR(ScheduleTrace(jobs.value(), options).value().makespan, 4, 1e-9);
  options.crossover = true;
  EXPECT_NEAR(ScheduleTrace(jobs.value(), options).value().makespan, 2, 1e-9);
}

TEST(TraceSchedule, TwoThatOnlyComputeDoNot) {
  const auto jobs = ParseTrace(std::string(kHeader) + "4,0,100,20,0\n4,0,100,20,0\n", "t.csv");
  ASSERT_TRUE(jobs.ok());
  TraceOptions options;
  options.devices = 4;
  options.crossover = true;
  const TraceOutcome outcome = ScheduleTrace(jobs.value(), options).value();
  EXPECT_NEAR(outcome.done[0], 2, 1e-9);
  EXPECT_NEAR(outcome.done[1], 4, 1e-9);
}

}  // namespace
}  // namespace heddle
