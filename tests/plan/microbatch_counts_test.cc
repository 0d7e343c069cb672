// Which numbers of microbatches are tried.
#include "plan/microbatch_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/places.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Planning PlanningFor(int64_t batch, std::optional<int64_t> given = std::nullopt) {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  PlanRequest options;
  options.model = "tiny-mlp";
  options.batch = batch;
  options.microbatches = given;
  return Planning::Make(options, cluster, nullptr).value();
}

TEST(MicrobatchCountsTest, AreTheWholeRange) {
  EXPECT_THAT(MicrobatchCounts(PlanningFor(100)), ElementsAre(1, 2, 4, 8, 16, 32, 64, 100));
  EXPECT_THAT(MicrobatchCounts(PlanningFor(64)), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(MicrobatchCounts(PlanningFor(1)), ElementsAre(1));
  EXPECT_THAT(MicrobatchCounts(PlanningFor(7), 3), ElementsAre(3, 6));
  EXPECT_THAT(MicrobatchCounts(PlanningFor(2), 3), IsEmpty());
}

TEST(MicrobatchCountsTest, AreTheOneGiven) {
  EXPECT_THAT(MicrobatchCounts(PlanningFor(100, 24)), ElementsAre(24));
  EXPECT_THAT(MicrobatchCounts(PlanningFor(100, 24), 5), IsEmpty());
  EXPECT_THAT(CountsNear(PlanningFor(100, 24), 24, 0), IsEmpty());
}

TEST(MicrobatchCountsTest, ComeCloserToTheBest) {
  EXPECT_THAT(CountsNear(PlanningFor(100), 16, 0), ElementsAre(12, 24));
  EXPECT_THAT(CountsNear(PlanningFor(100), 16, 1), ElementsAre(14, 20));
  EXPECT_THAT(CountsNear(PlanningFor(20), 16, 0), ElementsAre(12));
  EXPECT_THAT(CountsNear(PlanningFor(100), 16, 0, 8), ElementsAre(8, 24));
  EXPECT_THAT(CountsNear(PlanningFor(100), 1, 0), IsEmpty());
}

// Seconds by number of microbatches; fewer than `least` do not fit.
struct Landscape {
  std::function<double(int64_t)> seconds;
  int64_t least = 1;
  std::map<int64_t, int> tried = {};

  double Tuned(const Planning& planning, int64_t usual) {
    double best = 1e300;
    CountTuning tuning;
    tuning.usual = usual;
    tuning.bound = [&](int64_t m) { return 0.5 * seconds(m); };
    tuning.attempt = [&](int64_t m) -> Result<CountTuning::Trial> {
      ++tried[m];
      if (m < least) return CountTuning::Trial{};
      best = std::min(best, seconds(m));
      return CountTuning::Trial{CountTuning::Fit::kPlain, seconds(m)};
    };
    EXPECT_TRUE(TuneMicrobatches(planning, tuning).ok());
    return best;
  }
};

TEST(TuneMicrobatchesTest, GoesAsFarAsItHelps) {
  // A fill of three microbatches, and a thousandth for each.
  const auto seconds = [](int64_t m) {
    return (1 + 3.0 / static_cast<double>(m)) * (1 + 0.001 * static_cast<double>(m));
  };
  Landscape landscape{seconds};
  const double tuned = landscape.Tuned(PlanningFor(4096), 16);
  for (int64_t m = 1; m <= 4096; m *= 2) EXPECT_LE(tuned, seconds(m)) << m;
  EXPECT_EQ(landscape.tried.count(4096), 0U);  // long after it got worse
  for (const auto& [m, times] : landscape.tried) EXPECT_EQ(times, 1) << m;
}

TEST(TuneMicrobatchesTest, FindsWhatFitsBetweenPowersOfTwo) {
  Landscape landscape{[](int64_t m) { return 1 + 0.01 * static_cast<double>(m); }, 20};
  EXPECT_LT(landscape.Tuned(PlanningFor(256), 16), 1.24);
  Landscape last{[](int64_t m) { return 1 + 0.01 * static_cast<double>(m); }, 100};
  EXPECT_DOUBLE_EQ(last.Tuned(PlanningFor(100), 16), 2);
}

TEST(TuneMicrobatchesTest, StopsAtTheDeadline) {
  Planning planning = PlanningFor(256);
  double now = 0;
  planning.deadline = Deadline::In(2.5, [&now] { return now; });
  Landscape landscape{[&](int64_t m) { return 1 + 1.0 / static_cast<double>(m); }};
  CountTuning tuning;
  tuning.bound = [](int64_t) { return 0.0; };
  tuning.attempt = [&](int64_t m) -> Result<CountTuning::Trial> {
    now += 1;
    ++landscape.tried[m];
    return CountTuning::Trial{CountTuning::Fit::kPlain, landscape.seconds(m)};
  };
  EXPECT_TRUE(TuneMicrobatches(planning, tuning).ok());
  EXPECT_EQ(landscape.tried.size(), 3U);
}

TEST(DeadlineTest, PassesByItsClock) {
  EXPECT_FALSE(Deadline().passed());
  EXPECT_TRUE(Deadline().never());
  double now = 10;
  const Deadline deadline = Deadline::In(5, [&now] { return now; });
  const Deadline sooner = deadline.AtMost(2), later = deadline.AtMost(20);
  EXPECT_EQ(deadline.left(), 5);
  EXPECT_EQ(later.left(), 5);
  now = 12;
  EXPECT_TRUE(sooner.passed());
  EXPECT_EQ(sooner.left(), 0);
  EXPECT_FALSE(deadline.passed());
  now = 15;
  EXPECT_TRUE(deadline.passed() && later.passed());
}

}  // namespace
}  // namespace heddle
