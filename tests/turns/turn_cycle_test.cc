#include "turns/turn_cycle.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {
namespace {

using Counts = std::vector<int32_t>;

TurnJob Job(double compute, double communicate, double weight = 1) {
  return {{Seconds{compute}, Seconds{communicate}, Seconds{communicate}}, weight};
}

std::vector<TurnJob> AnyJobs() {
  std::vector<TurnJob> jobs(*rc::gen::inRange<size_t>(1, 8));
  for (TurnJob& job : jobs) {
    job = Job(*rc::gen::inRange(1, 1000) / 700.0, *rc::gen::inRange(0, 1000) / 300.0,
              *rc::gen::inRange(1, 9) / 3.0);
  }
  return jobs;
}

std::vector<OrderMember> AtWork(size_t jobs) {
  return std::vector<OrderMember>(jobs, {.active = true, .left = INT64_MAX});
}

TEST(TurnCounts, AreShort) {
  EXPECT_EQ(TurnCounts(std::vector<double>{1, 1}, 16), (Counts{1, 1}));
  EXPECT_EQ(TurnCounts(std::vector<double>{2, 1}, 16), (Counts{2, 1}));
  EXPECT_EQ(TurnCounts(std::vector<double>{1, 3}, 16), (Counts{1, 3}));
  EXPECT_EQ(TurnCounts(std::vector<double>{0.3, 0.2}, 16), (Counts{3, 2}));
}

RC_GTEST_PROP(TurnCounts, EveryJobHasItsTurnAndThereAreNotTooMany, ()) {
  std::vector<double> rates(*rc::gen::inRange<size_t>(1, 9));
  for (double& rate : rates) rate = *rc::gen::inRange(1, 1000) / 100.0;
  const Counts counts = TurnCounts(rates, 16);
  RC_ASSERT(counts.size() == rates.size());
  RC_ASSERT(std::accumulate(counts.begin(), counts.end(), 0) <= 16);
  RC_ASSERT(*std::min_element(counts.begin(), counts.end()) >= 1);
}

TEST(TurnCycle, RotationIsEachJobOnce) {
  const TurnJob jobs[] = {Job(1, 1), Job(5, 1), Job(2, 9)};
  EXPECT_EQ(TurnCycle(TurnOrder::kRotation, jobs, Seconds{}), (Counts{0, 1, 2}));
}

TEST(TurnCycle, DeficitFollowsFairRates) {
  EXPECT_EQ(TurnCycle(TurnOrder::kDeficit, std::vector{Job(1, 1), Job(2, 2)}, Seconds{}),
            (Counts{0, 0, 1}));
  // Alone they are equally fast, though one of them computes longer.
  EXPECT_EQ(TurnCycle(TurnOrder::kDeficit, std::vector{Job(1, 3), Job(3, 1)}, Seconds{}),
            (Counts{0, 1}));
  EXPECT_EQ(TurnCycle(TurnOrder::kDeficit, std::vector{Job(1, 0, 3), Job(1, 0, 2)}, Seconds{}),
            (Counts{0, 0, 1, 0, 1}));
}

TEST(TurnCycle, SwitchesCount) {
  const std::vector<TurnJob> jobs = {Job(1, 0), Job(3, 0)};
  EXPECT_EQ(TurnCycle(TurnOrder::kDeficit, jobs, Seconds{}), (Counts{0, 0, 0, 1}));
  EXPECT_EQ(TurnCycle(TurnOrder::kDeficit, jobs, Seconds{1}), (Counts{0, 0, 1}));
}

TEST(TurnCycle, AJobThatComputesInNoTimeHasTurns) {
  const std::vector<TurnJob> jobs = {Job(0, 0), Job(1, 1)};
  const Counts cycle = TurnCycle(TurnOrder::kDeficit, jobs, Seconds{});
  EXPECT_EQ(std::count(cycle.begin(), cycle.end(), 1), 1);
  EXPECT_GT(std::count(cycle.begin(), cycle.end(), 0), 1);
}

// Weights n c: after the n of all jobs nobody has a deficit, and all is as in the beginning.
RC_GTEST_PROP(TurnCycle, WeightsOfCountsMakeDeficitRoundRobinPeriodic, ()) {
  const auto size = *rc::gen::inRange<size_t>(1, 8);
  std::vector<OrderMember> members = AtWork(size);
  Counts counts;
  for (OrderMember& member : members) {
    counts.push_back(*rc::gen::inRange(1, kLongestCycle + 1));
    member.seconds = *rc::gen::inRange(1, 100000) / 7000.0;
    member.weight = counts.back() * member.seconds;
  }
  int32_t last = -1;
  const int32_t turns = std::accumulate(counts.begin(), counts.end(), 0);
  for (int cycle = 0; cycle < 3; ++cycle) {
    Counts had(size, 0);
    for (int32_t turn = 0; turn < turns; ++turn) {
      last = NextJob(TurnOrder::kDeficit, members, last);
      ++had[static_cast<size_t>(last)];
    }
    RC_ASSERT(had == counts);
    for (const OrderMember& member : members) RC_ASSERT(member.deficit == 0);
    // All have a turn in the last round, and the first is visited next.
    RC_ASSERT(last == static_cast<int32_t>(size) - 1);
  }
}

RC_GTEST_PROP(TurnCycle, HasTheTurnsOfTheFairRates, ()) {
  const std::vector<TurnJob> jobs = AnyJobs();
  const Seconds switch_cost{*rc::gen::inRange(0, 10) / 50.0};
  std::vector<JobTimes> times;
  std::vector<double> weights;
  for (const TurnJob& job : jobs) {
    times.push_back(job.times);
    weights.push_back(job.weight);
  }
  const Counts counts = TurnCounts(FairJobRates(times, weights, switch_cost), kLongestCycle);
  const Counts cycle = TurnCycle(TurnOrder::kDeficit, jobs, switch_cost);
  RC_ASSERT(cycle.size() <= static_cast<size_t>(kLongestCycle));
  for (size_t j = 0; j < jobs.size(); ++j) {
    RC_ASSERT(std::count(cycle.begin(), cycle.end(), static_cast<int32_t>(j)) == counts[j]);
  }
}

RC_GTEST_PROP(TurnCycle, RepeatsForEver, ()) {
  const std::vector<TurnJob> jobs = AnyJobs();
  const Counts cycle = TurnCycle(TurnOrder::kDeficit, jobs, Seconds{});
  std::vector<OrderMember> members = AtWork(jobs.size());
  RC_ASSERT(BeginCycle(jobs, Seconds{}, members) == static_cast<int32_t>(cycle.size()));
  int32_t last = -1;
  for (size_t turn = 0; turn < 50 * cycle.size(); ++turn) {
    last = NextJob(TurnOrder::kDeficit, members, last);
    RC_ASSERT(last == cycle[turn % cycle.size()]);
  }
}

// In proportion after any number of turns, up to a round and a turn: mixed, not in blocks.
RC_GTEST_PROP(TurnCycle, TurnsAreMixed, ()) {
  const std::vector<TurnJob> jobs = AnyJobs();
  const Counts cycle = TurnCycle(TurnOrder::kDeficit, jobs, Seconds{});
  Counts counts(jobs.size(), 0), had(jobs.size(), 0);
  for (const int32_t j : cycle) ++counts[static_cast<size_t>(j)];
  const auto frequent =
      static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  for (const int32_t turn : cycle) {
    ++had[static_cast<size_t>(turn)];
    for (size_t j = 0; j < jobs.size(); ++j) {
      const double due = static_cast<double>(had[frequent]) * counts[j] / counts[frequent];
      RC_ASSERT(std::abs(had[j] - due) < 2);
    }
  }
}

TEST(TurnCycle, OnlyThoseWhoWaitAreInIt) {
  const std::vector<TurnJob> jobs = {Job(1, 0), Job(100, 0), Job(1, 0)};
  std::vector<OrderMember> members = AtWork(3);
  members[1].left = 0;
  EXPECT_EQ(BeginCycle(jobs, Seconds{}, members), 2);
  members[0].active = members[2].active = false;
  EXPECT_EQ(BeginCycle(jobs, Seconds{}, members), 0);
}

}  // namespace
}  // namespace heddle
