// The two searches against each other, and both against trying everything.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/random_graph.h"
#include "plan/spmd/astar.h"
#include "plan/spmd/axis_descent.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd_brute_force.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

void ExpectAllEqual(const Graph& graph, const Cluster& cluster, const SpmdMesh& mesh, bool brute) {
  const OpCost cost(graph, nullptr);
  SpmdProblem problem(cost, cluster, mesh);
  const SpmdChoices folded = SearchFolded(problem);
  EXPECT_NEAR(problem.SecondsOf(folded.choices), folded.seconds, 1e-9 * folded.seconds);
  const AStarResult found = SearchAStar(problem);
  ASSERT_TRUE(found.proven());
  EXPECT_NEAR(problem.SecondsOf(found.best.choices), found.best.seconds, 1e-9 * folded.seconds);
  EXPECT_NEAR(found.best.seconds, folded.seconds, 1e-9 * folded.seconds);
  EXPECT_NEAR(found.bound, folded.seconds, 1e-9 * folded.seconds);
  if (!brute) return;
  EXPECT_NEAR(BruteForce(problem).Run(), folded.seconds, 1e-9 * folded.seconds);
}

TEST(SpmdSearch, OneAxisEqualsBruteForce) {
  std::mt19937 random(1);
  for (int round = 0; round < 12; ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    SpmdMesh mesh = FlatMesh(cluster);
    if (round % 3 != 0) SetRandomRatios(random, mesh);
    const auto size = [&] { return std::uniform_int_distribution<int>(2, 60)(random); };
    ExpectAllEqual(LinearModel(size(), size(), size(), round % 2 == 0), cluster, mesh, true);
  }
}

TEST(SpmdSearch, TwoAxesEqualBruteForce) {
  std::mt19937 random(2);
  for (int round = 0; round < 6; ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    SpmdMesh mesh = NodeMesh(cluster);
    if (round % 3 != 0) SetRandomRatios(random, mesh);
    const auto size = [&] { return std::uniform_int_distribution<int>(2, 60)(random); };
    ExpectAllEqual(LinearModel(size(), size(), size(), false), cluster, mesh, true);
  }
}

TEST(SpmdSearch, ModelsOfThreeLayers) {
  std::mt19937 random(3);
  for (const char* model : {"mlp?layers=3&inputs=24&hidden=40&outputs=6",
                            "mlp?layers=2&inputs=8&hidden=80&outputs=10&dropout=10"}) {
    const Graph graph = BuildModel(model, {.batch = 12}).value();
    for (int round = 0; round < 4; ++round) {
      const Cluster cluster = ClusterOf(RandomCluster(random));
      SpmdMesh mesh = FlatMesh(cluster);
      if (round % 2 == 1) SetRandomRatios(random, mesh);
      ExpectAllEqual(graph, cluster, mesh, false);
    }
  }
}

// Every op there is, skip connections, clipping.
TEST(SpmdSearch, RandomGraphs) {
  std::mt19937 random(4);
  int compared = 0;
  for (int round = 0; round < 25; ++round) {
    const Graph graph =
        RandomGraph(random, {.batch = 6, .clip = round % 2 == 0 ? 1.0 : 0.0}).Make();
    const Cluster cluster = ClusterOf(RandomCluster(random));
    SpmdMesh mesh = FlatMesh(cluster);
    if (round % 2 == 1) SetRandomRatios(random, mesh);
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    if (graph.ops().size() > 60) continue;
    SweepStatistics statistics;
    const SpmdChoices folded = SearchFolded(problem, {.most_states = 2000}, &statistics);
    const AStarResult found = SearchAStar(problem);
    EXPECT_LE(found.bound, folded.seconds * (1 + 1e-9));
    if (!statistics.exact || !found.proven()) continue;
    EXPECT_NEAR(found.best.seconds, folded.seconds, 1e-9 * folded.seconds);
    ++compared;
  }
  EXPECT_GE(compared, 5);
}

// One axis at a time is a local optimum: never below the exact search, and not far above.
TEST(SpmdSearch, AxesInTurnsComeClose) {
  std::mt19937 random(6);
  for (int round = 0; round < 8; ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    SpmdMesh mesh = NodeMesh(cluster);
    if (round % 2 == 1) SetRandomRatios(random, mesh);
    const auto size = [&] { return std::uniform_int_distribution<int>(2, 60)(random); };
    const Graph graph = LinearModel(size(), size(), size(), true);
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    SweepStatistics statistics;
    const SpmdChoices exact = SearchFolded(problem, {}, &statistics);
    ASSERT_TRUE(statistics.exact);
    const SpmdChoices found = SearchByAxis(problem)[0];
    EXPECT_GE(found.seconds, exact.seconds * (1 - 1e-9));
    EXPECT_LE(found.seconds, exact.seconds * 1.2);
  }
}

// With the rules of one axis as in `choices`.
Restriction WithAxis(const SpmdProblem& problem, size_t axis, const std::vector<int>& choices) {
  Restriction fixed;
  for (size_t k = 0; k < choices.size(); ++k) {
    const int rule = problem.choice(static_cast<int>(k), choices[k]).rules[axis];
    const std::vector<OpChoice>& all = *problem.ops()[k].choices;
    fixed.choices.emplace_back();
    for (size_t c = 0; c < all.size(); ++c) {
      if (all[c].rules[axis] == rule) fixed.choices.back().push_back(static_cast<int>(c));
    }
  }
  return fixed;
}

// Also where states fall behind each other, each at its own pace, so that nothing ever repeats: two
// nodes behind a slow link, samples divided between them.
TEST(SpmdSearch, DepthCostsLittleWhereNothingRepeats) {
  ClusterNumbers numbers;
  numbers.devices = 4;
  numbers.flops = 14e12;
  numbers.slower = 1.8;
  numbers.inside = 20e9;
  numbers.between = 1.25e9;
  const Cluster cluster = ClusterOf(numbers);
  const SpmdMesh mesh = NodeMesh(cluster, AllNodes(cluster));
  std::vector<double> seconds;
  for (const int layers : {16, 32, 48}) {
    const Graph graph =
        BuildModel(fmt::format("bert-base?seq=128&layers={}", layers), {.batch = 256}).value();
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    std::vector<int> by_samples;
    for (const SpmdOp& op : problem.ops()) {
      int first = 0;
      for (size_t c = 0; first == 0 && c < op.choices->size(); ++c) {
        if ((*op.choices)[c].rule[0].letter == 'b') first = static_cast<int>(c);
      }
      by_samples.push_back(first);
    }
    const Restriction outer = WithAxis(problem, 0, by_samples);
    SpmdChoices found = SearchFolded(problem, {100, kManyStates, &outer});
    const Restriction inner = WithAxis(problem, 1, found.choices);
    SweepStatistics statistics;
    found = SearchFolded(problem, {100, kManyStates, &inner}, &statistics);
    EXPECT_LT(statistics.layers_swept, 16) << layers;
    EXPECT_NEAR(found.seconds, problem.SecondsOf(found.choices), 1e-9 * found.seconds);
    seconds.push_back(found.seconds);
  }
  // What is not swept costs no more than what is.
  EXPECT_LE(seconds[2] - seconds[1], (seconds[1] - seconds[0]) * (1 + 1e-9));
}

// Layers that are alike are swept a few times only, and the sum is right.
TEST(SpmdSearch, DepthCostsLittle) {
  std::mt19937 random(7);
  const Cluster cluster = ClusterOf(RandomCluster(random));
  const SpmdMesh mesh = FlatMesh(cluster);
  const Graph graph =
      BuildModel("bert-moe?layers=32&hidden=16&heads=2&seq=8&vocab=32&experts=4", {.batch = 8})
          .value();
  const OpCost cost(graph, nullptr);
  SpmdProblem problem(cost, cluster, mesh);
  SweepStatistics statistics;
  const SpmdChoices found = SearchFolded(problem, {}, &statistics);
  EXPECT_LT(statistics.layers_swept, 16);
  EXPECT_NEAR(problem.SecondsOf(found.choices), found.seconds, 1e-9 * found.seconds);
}

}  // namespace
}  // namespace heddle
