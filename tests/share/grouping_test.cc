#include "share/grouping.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "turns/period_model.h"

namespace heddle {
namespace {

using Groups = std::vector<std::vector<size_t>>;

double Total(const Groups& groups, const SavingOf& saving) {
  double total = 0;
  for (const auto& group : groups) {
    if (group.size() < 2) continue;
    const std::optional<double> saved = saving(group);
    if (!saved) return -1;  // must not share
    total += *saved;
  }
  return total;
}

// Every way to put jobs into groups of at most `most`.
void ForEachPartition(size_t jobs, size_t most, Groups& groups, size_t next,
                      const std::function<void(const Groups&)>& see) {
  if (next == jobs) return see(groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].size() == most) continue;
    groups[g].push_back(next);
    ForEachPartition(jobs, most, groups, next + 1, see);
    groups[g].pop_back();
  }
  groups.push_back({next});
  ForEachPartition(jobs, most, groups, next + 1, see);
  groups.pop_back();
}

double BestOfAll(size_t jobs, size_t most, const SavingOf& saving) {
  double best = 0;
  Groups groups;
  ForEachPartition(jobs, most, groups, 0,
                   [&](const Groups& all) { best = std::max(best, Total(all, saving)); });
  return best;
}

void ExpectPartition(const Groups& groups, size_t jobs) {
  std::vector<size_t> all;
  for (const auto& group : groups) {
    RC_ASSERT(std::is_sorted(group.begin(), group.end()));
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<size_t> expected(jobs);
  std::iota(expected.begin(), expected.end(), 0);
  RC_ASSERT(all == expected);
}

RC_GTEST_PROP(Grouping, PairsAreTheBestOfAllPairs, ()) {
  const auto jobs = *rc::gen::inRange<size_t>(1, 8);
  std::map<std::vector<size_t>, std::optional<double>> table;
  for (size_t a = 0; a < jobs; ++a) {
    for (size_t b = a + 1; b < jobs; ++b) {
      const int saved = *rc::gen::inRange(-300, 1000);
      if (saved >= 0) table[{a, b}] = saved / 8.0;
    }
  }
  const SavingOf saving = [&](const std::vector<size_t>& group) { return table[group]; };
  const Groups pairs = PairJobs(jobs, saving);
  ExpectPartition(pairs, jobs);
  RC_ASSERT(Total(pairs, saving) > BestOfAll(jobs, 2, saving) - 1e-6);
}

// Savings of the period model, per period.
RC_GTEST_PROP(Grouping, GroupsAreNoWorseThanPairsAndNearTheBest, ()) {
  const auto count = *rc::gen::inRange<size_t>(1, 7);
  std::vector<JobTimes> jobs;
  for (size_t j = 0; j < count; ++j) {
    const Seconds compute{*rc::gen::inRange(1, 100) / 1.0};
    const Seconds communicate{*rc::gen::inRange(0, 100) / 1.0};
    jobs.push_back({compute, communicate, communicate});
  }
  const SavingOf saving = [&](const std::vector<size_t>& group) -> std::optional<double> {
    std::vector<JobTimes> members;
    double serial = 0;
    for (const size_t j : group) {
      members.push_back(jobs[j]);
      serial += jobs[j].alone().value;
    }
    return serial - BestPeriod(members, Seconds{}).value;
  };
  const Groups groups = GroupJobs(count, saving);
  ExpectPartition(groups, count);
  const double total = Total(groups, saving);
  const double best = BestOfAll(count, count, saving);
  RC_ASSERT(total >= Total(PairJobs(count, saving), saving) - 1e-6);
  RC_ASSERT(total <= best + 1e-6);
  RC_ASSERT(total >= 0.8 * best - 1e-6);
}

TEST(Grouping, WhoMustNotShareDoesNot) {
  const SavingOf never = [](const std::vector<size_t>&) { return std::optional<double>(); };
  EXPECT_EQ(GroupJobs(3, never), (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(GroupJobs(0, never), Groups{});
}

TEST(Grouping, LargerGroupsGrow) {
  // Any group saves ten for each job beyond the first.
  const SavingOf saving = [](const std::vector<size_t>& group) {
    return std::optional<double>(10.0 * static_cast<double>(group.size() - 1));
  };
  EXPECT_EQ(GroupJobs(3, saving).size(), 1U);
}

}  // namespace
}  // namespace heddle
