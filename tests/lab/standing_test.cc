#include "lab/standing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace heddle {
namespace {

TEST(StandingTest, PairedLogarithms) {
  const std::vector<double> first = {2, 8, 4}, second = {1, 2, 1};
  const Paired paired = ComparePaired(first, second, 0).value();
  EXPECT_NEAR(paired.ratio.mean, std::exp2(5.0 / 3), 1e-12);
  EXPECT_EQ(paired.seeds, 3);
  // t = (5/3) / (√(1/3) / √3) = 5 on two degrees of freedom: P = 1 - t/√(2 + t²).
  EXPECT_NEAR(paired.chance, 1 - 5 / std::sqrt(27.0), 1e-12);
  EXPECT_EQ(ComparePaired(first, std::vector<double>{1, 2, 0}, 0), std::nullopt);
  EXPECT_EQ(ComparePaired(first, std::vector<double>{1, 2, INFINITY}, 0), std::nullopt);
  EXPECT_EQ(ComparePaired(first, first, 0)->chance, 1);
}

TEST(StandingTest, BenjaminiAndHochbergByHand) {
  // Limits 0.01, 0.02, 0.03, 0.04, 0.05 of the sorted ones: the fourth is the last below.
  const std::vector<double> chances = {0.039, 0.9, 0.005, 0.025, 0.021};
  EXPECT_EQ(BenjaminiHochberg(chances, 0.05), (std::vector<bool>{true, false, true, true, true}));
  EXPECT_EQ(BenjaminiHochberg(std::vector<double>{0.04, 0.9}, 0.05),
            (std::vector<bool>{false, false}));
  EXPECT_TRUE(BenjaminiHochberg({}, 0.05).empty());
}

Paired Of(double mean, double reach, double chance, int seeds = 10) {
  return {{mean, mean - reach, mean + reach}, chance, seeds};
}

TEST(StandingTest, Verdicts) {
  const std::vector<Standing> found =
      JudgeAll({Of(0.5, 0.1, 1e-6), Of(2, 0.5, 1e-5), Of(1.01, 0.03, 1e-4), Of(1.2, 0.4, 0.3),
                std::nullopt, Of(0.5, 0.1, 1e-9, 9)});
  EXPECT_EQ(found, (std::vector<Standing>{Standing::kAhead, Standing::kBehind, Standing::kTie,
                                          Standing::kOpen, Standing::kOpen, Standing::kOpen}));
}

// Ten seeds that all make the same run are one run, however far the methods are apart.
TEST(StandingTest, TheSameRunTenTimesIsNoVerdict) {
  const std::vector<double> first(10, 3.3), second(10, 1.0);
  const Paired same = ComparePaired(first, second, 0).value();
  EXPECT_EQ(same.seeds, 1);
  EXPECT_EQ(JudgeAll({same})[0], Standing::kOpen);
  std::vector<double> other = second;
  for (size_t k = 0; k < other.size(); ++k) other[k] += 0.01 * static_cast<double>(k);
  EXPECT_EQ(JudgeAll({ComparePaired(first, other, 0)})[0], Standing::kBehind);
  // A method against itself: the seeds differ.
  EXPECT_EQ(ComparePaired(other, other, 0)->seeds, 10);
}

// Where nobody is ahead, few maps of many cells have a verdict at all; without the control most
// would.
TEST(StandingTest, FalseVerdictsAreRare) {
  const RandomStream stream(7, "standing");
  int maps_with_a_verdict = 0, uncontrolled = 0;
  uint64_t next = 0;
  for (int map = 0; map < 200; ++map) {
    std::vector<std::optional<Paired>> cells;
    bool any = false;
    for (int cell = 0; cell < 60; ++cell) {
      std::vector<double> first, second;
      for (int seed = 0; seed < 10; ++seed) {
        first.push_back(std::exp(stream.Normal(next++)));
        second.push_back(std::exp(stream.Normal(next++)));
      }
      cells.push_back(ComparePaired(first, second, 0));
      any = any || cells.back()->chance < 0.05;
    }
    uncontrolled += any ? 1 : 0;
    for (const Standing standing : JudgeAll(cells)) {
      if (standing == Standing::kOpen) continue;
      ++maps_with_a_verdict;
      break;
    }
  }
  EXPECT_LE(maps_with_a_verdict, 20);  // 10 expected
  EXPECT_GE(uncontrolled, 150);
}

}  // namespace
}  // namespace heddle
