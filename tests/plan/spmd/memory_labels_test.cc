// A* under memory limits: labels of cost and bytes, against trying everything.
#include <gtest/gtest.h>

#include <random>

#include "plan/spmd/astar.h"
#include "plan/spmd/byte_prices.h"
#include "plan/spmd/estimate.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd/step_list.h"
#include "plan/spmd_brute_force.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

constexpr double kRounding = 1e-9;

bool ReallyFits(SpmdProblem& problem, const std::vector<int>& choices) {
  return !LackOf(problem, EstimateOf(problem, StepsOf(problem, choices)));
}

struct Case {
  Cluster cluster;
  SpmdMesh mesh;
  Graph graph;
};

// A product whose weights and optimizer state fit on every device, on some, or only in parts.
Case CaseOf(std::mt19937& random, bool flat, bool bias) {
  const auto size = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Graph graph = LinearModel(size(2, 6), size(20, 60), size(20, 60), bias, Optimizer::kAdam);
  double stored = 0;
  for (const Parameter& parameter : graph.parameters()) {
    stored += 3.0 * static_cast<double>(graph.tensor(parameter.tensor).bytes().value);
  }
  ClusterNumbers numbers = RandomCluster(random);
  numbers.nodes = 2;
  numbers.devices = 2;
  numbers.latency *= size(1, 200);  // where it is long, whole weights everywhere are the cheapest
  numbers.memory = stored * std::uniform_real_distribution<double>(0.1, 1.6)(random);
  Case made{ClusterOf(numbers), {}, std::move(graph)};
  made.mesh = flat ? FlatMesh(made.cluster) : NodeMesh(made.cluster);
  if (size(0, 2) == 0) SetRandomRatios(random, made.mesh);
  return made;
}

class Labels : public testing::TestWithParam<bool> {};  // one axis or two

// The cheapest that the limits let pass, and that there is none.
TEST_P(Labels, EqualBruteForce) {
  std::mt19937 random(21);
  int bound_by_memory = 0, nothing = 0;
  for (int round = 0; round < (GetParam() ? 40 : 8); ++round) {
    const Case one = CaseOf(random, GetParam(), GetParam() && round % 2 == 0);
    const OpCost cost(one.graph, nullptr);
    SpmdProblem problem(cost, one.cluster, one.mesh);
    const MemoryLimits limits(problem);
    const double cheapest = BruteForce(problem, [&](const std::vector<int>& choices) {
                              return limits.Fits(limits.BytesOf(choices));
                            }).Run();
    const AStarResult found = SearchAStar(problem, {.limits = &limits});
    if (cheapest == kNever) {
      EXPECT_EQ(found.best.seconds, kNever);
      ++nothing;
      continue;
    }
    EXPECT_TRUE(found.proven());
    EXPECT_NEAR(found.best.seconds, cheapest, kRounding * cheapest);
    EXPECT_TRUE(limits.Fits(limits.BytesOf(found.best.choices)));
    bound_by_memory += cheapest > SearchFolded(problem).seconds * (1 + 1e-6) ? 1 : 0;
  }
  EXPECT_GE(bound_by_memory, GetParam() ? 3 : 1);
  EXPECT_GE(nothing, GetParam() ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Axes, Labels, testing::Bool());

// Of programs that really fit, by the estimate of their steps, none is below the bound.
TEST(MemoryLimitsTest, BoundWhatReallyFits) {
  std::mt19937 random(22);
  int compared = 0, proven = 0;
  for (int round = 0; round < 30; ++round) {
    const Case one = CaseOf(random, /*flat=*/true, /*bias=*/false);
    const OpCost cost(one.graph, nullptr);
    SpmdProblem problem(cost, one.cluster, one.mesh);
    const MemoryLimits limits(problem);
    const auto fits = [&](const std::vector<int>& choices) {
      const bool really = ReallyFits(problem, choices);
      EXPECT_TRUE(!really || limits.Fits(limits.BytesOf(choices)));
      return really;
    };
    const double cheapest = BruteForce(problem, fits).Run();
    const AStarResult found = SearchAStar(problem, {.limits = &limits, .fits = fits});
    EXPECT_LE(found.bound, cheapest * (1 + kRounding));
    if (found.best.seconds < kNever) {
      EXPECT_TRUE(ReallyFits(problem, found.best.choices));
      EXPECT_GE(found.best.seconds, cheapest * (1 - kRounding));
    }
    compared += cheapest < kNever ? 1 : 0;
    proven += cheapest < kNever && found.proven() ? 1 : 0;
  }
  EXPECT_GE(compared, 10);
  EXPECT_GE(proven, compared / 3);
}

// What fits by the estimate of its steps never exceeds the limits.
TEST(MemoryLimitsTest, AreNoMoreThanTheTruth) {
  std::mt19937 random(24);
  int fit = 0;
  for (int round = 0; round < 10; ++round) {
    const Case one = CaseOf(random, /*flat=*/round % 2 == 0, /*bias=*/true);
    const OpCost cost(one.graph, nullptr);
    SpmdProblem problem(cost, one.cluster, one.mesh);
    const MemoryLimits limits(problem);
    for (int tries = 0; tries < 200; ++tries) {
      std::vector<int> choices;
      for (const SpmdOp& op : problem.ops()) {
        choices.push_back(static_cast<int>(random() % op.choices->size()));
      }
      if (!ReallyFits(problem, choices)) continue;
      EXPECT_TRUE(limits.Fits(limits.BytesOf(choices)));
      ++fit;
    }
  }
  EXPECT_GE(fit, 100);
}

// Prices for bytes raise the bound where memory is scarce, and never above the cheapest that fits.
TEST(BytePricesTest, RaiseTheBound) {
  std::mt19937 random(23);
  int raised = 0;
  for (int round = 0; round < 30; ++round) {
    const Case one = CaseOf(random, /*flat=*/true, /*bias=*/round % 2 == 0);
    const OpCost cost(one.graph, nullptr);
    SpmdProblem problem(cost, one.cluster, one.mesh);
    const MemoryLimits limits(problem);
    const FoldedSteps steps = FoldedStepsOf(problem);
    Potentials plain(problem, *steps, nullptr);
    plain.Improve({});
    Potentials priced(problem, *steps, &limits);
    if (!FindBytePrices(limits, {}, priced)) continue;
    const double cheapest = BruteForce(problem, [&](const std::vector<int>& choices) {
                              return limits.Fits(limits.BytesOf(choices));
                            }).Run();
    EXPECT_GE(priced.bound(), plain.bound() * (1 - kRounding));
    EXPECT_LE(priced.bound(), cheapest * (1 + kRounding));
    raised += priced.bound() > plain.bound() * (1 + 1e-6) ? 1 : 0;
  }
  EXPECT_GE(raised, 3);
}

}  // namespace
}  // namespace heddle
