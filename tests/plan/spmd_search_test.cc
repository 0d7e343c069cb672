// The two searches against each other, and both against trying everything.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "model/random_graph.h"
#include "plan/spmd/astar.h"
#include "plan/spmd/axis_descent.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

// The least cost of having all of `wanted`, by making one layout after the other in every order.
double TreeByTrying(const ConversionTable& table, LayoutSet have, LayoutSet wanted, int most,
                    double limit) {
  if ((wanted & ~have) == 0) return 0;
  if (most == 0) return kNever;
  double least = limit;
  for (int to = 0; to < table.space().size(); ++to) {
    if ((have & OneLayout(to)) != 0) continue;
    const double seconds = table.SecondsFrom(have, to);
    if (seconds >= least) continue;
    least = std::min(least, seconds + TreeByTrying(table, have | OneLayout(to), wanted, most - 1,
                                                   least - seconds));
  }
  return least;
}

// Every combination of rules, and for each tensor every tree of conversions.
class BruteForce {
 public:
  explicit BruteForce(SpmdProblem& problem)
      : problem_(problem),
        sources_(problem.graph().tensors().size(), -1),
        wanted_(problem.graph().tensors().size(), 0) {}

  double Run() {
    Try(0, 0);
    return best_;
  }

 private:
  void Try(size_t op, double seconds) {
    if (op == problem_.ops().size()) {
      for (size_t t = 0; t < sources_.size(); ++t) {
        if (sources_[t] >= 0) seconds += Tree(static_cast<int>(t));
      }
      best_ = std::min(best_, seconds);
      return;
    }
    if (seconds >= best_) return;
    const SpmdOp& made = problem_.ops()[op];
    for (const OpChoice& choice : *made.choices) {
      const std::vector<int> sources = sources_;
      const std::vector<LayoutSet> wanted = wanted_;
      bool agrees = true;
      for (size_t t = 0; t < made.touches.size(); ++t) {
        const auto tensor = static_cast<size_t>(made.touches[t].tensor);
        if (made.touches[t].produces) {
          agrees = agrees && (sources_[tensor] < 0 || sources_[tensor] == choice.layouts[t]);
          sources_[tensor] = choice.layouts[t];
        } else {
          wanted_[tensor] |= OneLayout(choice.layouts[t]);
        }
      }
      if (agrees) Try(op + 1, seconds + choice.seconds);
      sources_ = sources;
      wanted_ = wanted;
    }
  }

  double Tree(int tensor) {
    const auto at = static_cast<size_t>(tensor);
    const auto key = std::tuple(problem_.kind_of(tensor), sources_[at], wanted_[at]);
    const auto [found, fresh] = trees_.try_emplace(key);
    if (fresh) {
      const int most = std::popcount(wanted_[at]) + 1;
      found->second = TreeByTrying(problem_.facts(tensor).conversions(), OneLayout(sources_[at]),
                                   wanted_[at], most, kNever);
    }
    return found->second;
  }

  SpmdProblem& problem_;
  std::vector<int> sources_;
  std::vector<LayoutSet> wanted_;
  std::map<std::tuple<int, int, LayoutSet>, double> trees_;
  double best_ = kNever;
};

void ExpectAllEqual(const Graph& graph, const Cluster& cluster, const SpmdMesh& mesh, bool brute) {
  const OpCost cost(graph, nullptr);
  SpmdProblem problem(cost, cluster, mesh);
  const SpmdChoices folded = SearchFolded(problem);
  EXPECT_NEAR(problem.SecondsOf(folded.choices), folded.seconds, 1e-9 * folded.seconds);
  const auto found = SearchAStar(problem);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(problem.SecondsOf(found->choices), found->seconds, 1e-9 * found->seconds);
  EXPECT_NEAR(found->seconds, folded.seconds, 1e-9 * folded.seconds);
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

// Every op there is, skip connections, clipping: those that A* can do.
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
    if (graph.ops().size() > 40) continue;
    const auto found = SearchAStar(problem, 100'000);
    if (!found) continue;
    SweepStatistics statistics;
    const SpmdChoices folded = SearchFolded(problem, {}, &statistics);
    EXPECT_TRUE(statistics.exact);
    EXPECT_NEAR(found->seconds, folded.seconds, 1e-9 * folded.seconds);
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
