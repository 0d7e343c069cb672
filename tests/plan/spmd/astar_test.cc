// A* with its potentials: bounds that hold, and programs that are the cheapest.
#include "plan/spmd/astar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "model/random_graph.h"
#include "plan/spmd/axis_descent.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd/potentials.h"
#include "plan/spmd_brute_force.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

constexpr double kRounding = 1e-9;

SpmdMesh MeshOf(std::mt19937& random, const Cluster& cluster, bool flat, bool even) {
  SpmdMesh mesh = flat ? FlatMesh(cluster) : NodeMesh(cluster);
  if (!even) SetRandomRatios(random, mesh);
  return mesh;
}

int SizeOf(std::mt19937& random) { return std::uniform_int_distribution<int>(2, 60)(random); }

// All states of a problem that are reachable, and what each still has to cost, by trying.
class AllStates {
 public:
  using State = std::vector<FactId>;

  AllStates(SpmdProblem& problem, const std::vector<FrontierStep>& steps)
      : steps_(steps), after_(steps.size() + 1) {
    for (const FrontierStep& step : steps) {
      outcomes_.emplace_back(problem, step, nullptr, /*prune=*/false);
    }
    ToGo(0, {});
  }

  struct Way {
    State to;
    double seconds;
  };
  std::vector<Way> WaysFrom(size_t k, const State& state) {
    const FrontierStep& step = steps_[k];
    State touched;
    for (const int place : step.place) {
      touched.push_back(place < 0 ? FactTable::kNothing : state[static_cast<size_t>(place)]);
    }
    std::vector<Way> ways;
    for (const Outcome& outcome : outcomes_[k].Of(touched)) {
      ways.push_back({{}, outcome.seconds});
      for (const int from : step.after) {
        ways.back().to.push_back(from >= 0 ? state[static_cast<size_t>(from)]
                                           : outcome.facts[static_cast<size_t>(-1 - from)]);
      }
    }
    return ways;
  }

  double ToGo(size_t k, const State& state) {
    if (k == steps_.size()) return 0;
    const auto [found, fresh] = after_[k].try_emplace(state, kNever);
    if (!fresh) return found->second;
    double least = kNever;
    for (const Way& way : WaysFrom(k, state)) {
      least = std::min(least, way.seconds + ToGo(k + 1, way.to));
    }
    return after_[k][state] = least;
  }

  const std::map<State, double>& states(size_t k) const { return after_[k]; }

 private:
  const std::vector<FrontierStep>& steps_;
  std::vector<StepOutcomes> outcomes_;
  std::vector<std::map<State, double>> after_;  // by step
};

double HeuristicOf(Potentials& potentials, size_t k, const AllStates::State& state) {
  double h = potentials.Rest(k);
  for (size_t place = 0; place < state.size(); ++place) h += potentials.Of(k, place, state[place]);
  return h;
}

struct Violations {
  int64_t states = 0, above = 0, inconsistent = 0;
};

// States whose h, times a factor, exceeds what they still have to cost or what a step and the h
// after it come to.
Violations CountViolations(AllStates& all, Potentials& potentials, size_t steps, double factor) {
  Violations found;
  const double rounding = kRounding * all.ToGo(0, {});
  for (size_t k = 0; k < steps; ++k) {
    for (const auto& [state, to_go] : all.states(k)) {
      const double h = factor * HeuristicOf(potentials, k, state);
      ++found.states;
      found.above += h > to_go + rounding ? 1 : 0;
      for (const AllStates::Way& way : all.WaysFrom(k, state)) {
        const double next = k + 1 == steps ? 0 : factor * HeuristicOf(potentials, k + 1, way.to);
        found.inconsistent += h > way.seconds + next + rounding ? 1 : 0;
      }
    }
  }
  return found;
}

class Heuristic : public testing::TestWithParam<bool> {};  // one axis or two

// On every state that can be reached, before and after passes; and a heuristic that is too large by
// a tenth is noticed.
TEST_P(Heuristic, IsAdmissibleAndConsistent) {
  std::mt19937 random(11);
  int64_t states = 0, caught = 0;
  for (int round = 0; round < (GetParam() ? 12 : 4); ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    const SpmdMesh mesh = MeshOf(random, cluster, GetParam(), round % 2 == 0);
    const Graph graph =
        LinearModel(SizeOf(random), SizeOf(random), SizeOf(random), GetParam() && round % 3 == 0);
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    const FoldedSteps steps = FoldedStepsOf(problem);
    AllStates all(problem, *steps);
    Potentials potentials(problem, *steps, nullptr);
    double before = potentials.bound();
    for (const int passes : {0, 1, 3, 30}) {
      potentials.Improve({.passes = passes});
      EXPECT_GE(potentials.bound(), before * (1 - kRounding));
      before = potentials.bound();
      EXPECT_LE(potentials.bound(), all.ToGo(0, {}) * (1 + kRounding));
      const Violations found = CountViolations(all, potentials, steps->size(), 1);
      EXPECT_EQ(found.above, 0) << "of " << found.states;
      EXPECT_EQ(found.inconsistent, 0) << "of " << found.states;
      states += found.states;
    }
    caught += CountViolations(all, potentials, steps->size(), 1.1).above > 0 ? 1 : 0;
    EXPECT_NEAR(all.ToGo(0, {}), BruteForce(problem).Run(), kRounding * all.ToGo(0, {}));
  }
  EXPECT_GT(states, 1000);
  EXPECT_GE(caught, GetParam() ? 9 : 3);
}

INSTANTIATE_TEST_SUITE_P(Axes, Heuristic, testing::Bool());

// Excluding what costs as much as is known must leave the cheapest.
TEST(AStarTest, AnyIncumbentLeadsToTheCheapest) {
  std::mt19937 random(12);
  for (int round = 0; round < 10; ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    const SpmdMesh mesh = MeshOf(random, cluster, round % 2 == 0, round % 3 == 0);
    const Graph graph = LinearModel(SizeOf(random), SizeOf(random), SizeOf(random), round % 2 == 0);
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    const double cheapest = BruteForce(problem).Run();
    std::vector<std::vector<int>> incumbents = {SearchFolded(problem).choices,
                                                std::vector<int>(graph.ops().size(), 0)};
    for (const std::vector<int>& incumbent : incumbents) {
      const AStarResult found = SearchAStar(problem, {.incumbent = &incumbent});
      EXPECT_TRUE(found.proven());
      EXPECT_NEAR(found.best.seconds, cheapest, kRounding * cheapest);
      EXPECT_NEAR(problem.SecondsOf(found.best.choices), cheapest, kRounding * cheapest);
    }
  }
}

// However early it stops: no program of any search is below the bound, and more effort never
// lowers it.
TEST(AStarTest, TheBoundHoldsWheneverItStops) {
  std::mt19937 random(13);
  int compared = 0;
  for (int round = 0; round < 30; ++round) {
    const Graph graph =
        RandomGraph(random, {.batch = 6, .clip = round % 2 == 0 ? 1.0 : 0.0}).Make();
    const Cluster cluster = ClusterOf(RandomCluster(random));
    const SpmdMesh mesh = MeshOf(random, cluster, round % 3 != 0, round % 2 == 0);
    if (graph.ops().size() > (mesh.flat() ? 50U : 25U)) continue;
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    double least = SearchFolded(problem, {.most_states = 200}).seconds;
    std::vector<int> first = SearchFolded(problem, {.most_states = 3}).choices;
    if (!mesh.flat()) least = std::min(least, SearchByAxis(problem)[0].seconds);
    std::vector<AStarResult> results;
    for (const int64_t states : {0, 30, 1000}) {
      for (const int passes : {1, 20}) {
        results.push_back(SearchAStar(
            problem, {.incumbent = &first, .most_expanded = states, .most_passes = passes}));
        least = std::min(least, results.back().best.seconds);
        EXPECT_LE(results.back().best.seconds, problem.SecondsOf(first) * (1 + kRounding));
      }
    }
    for (const AStarResult& result : results) {
      EXPECT_GT(result.bound, 0);
      EXPECT_LE(result.bound, least * (1 + kRounding));
      EXPECT_GE(result.bound, result.root_bound * (1 - kRounding));
    }
    ++compared;
  }
  EXPECT_GE(compared, 5);
}

// Two axes at once: where one axis at a time ends in a local optimum, this goes on.
TEST(AStarTest, BeatsOneAxisAtATime) {
  std::mt19937 random(6);
  int better = 0;
  for (int round = 0; round < 12; ++round) {
    const Cluster cluster = ClusterOf(RandomCluster(random));
    const SpmdMesh mesh = MeshOf(random, cluster, false, round % 2 == 0);
    const Graph graph =
        BuildModel("mlp?layers=3&inputs=24&hidden=40&outputs=6", {.batch = 12}).value();
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    const SpmdChoices by_axis = SearchByAxis(problem)[0];
    const AStarResult found = SearchAStar(problem, {.incumbent = &by_axis.choices});
    EXPECT_LE(found.best.seconds, by_axis.seconds * (1 + kRounding));
    EXPECT_LE(found.bound, found.best.seconds * (1 + kRounding));
    better += found.best.seconds < by_axis.seconds * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GE(better, 1);
}

// Too many facts of a tensor: one for all, and the bound still holds.
TEST(TouchChainTest, MergedFactsCostNoMore) {
  std::mt19937 random(14);
  const Cluster cluster = ClusterOf(RandomCluster(random));
  const SpmdMesh mesh = MeshOf(random, cluster, false, true);
  const Graph graph = LinearModel(20, 30, 40, true);
  const OpCost cost(graph, nullptr);
  SpmdProblem problem(cost, cluster, mesh);
  for (const SpmdOp& op : problem.ops()) {
    for (size_t t = 0; t < op.touches.size(); ++t) {
      FactTable& table = problem.facts(op.touches[t].tensor);
      TouchManner manner = MannerOf(op, {t});
      manner.produces = {false};
      TouchManner maker = manner;
      maker.produces = {true};
      const TouchChain exact = ChainOf(table, {&maker, &manner, &manner, &manner});
      const TouchChain merged = ChainOf(table, {&maker, &manner, &manner, &manner}, 4);
      ASSERT_EQ(exact.touches.size(), merged.touches.size());
      const auto least_of = [](const TouchChain& chain, const std::vector<size_t>& slots) {
        double seconds = 0;
        int fact = 0;
        for (size_t level = 0; level < slots.size(); ++level) {
          const TouchChain::Touch& touch = chain.touches[level];
          const size_t at = static_cast<size_t>(fact) * touch.slots + slots[level];
          seconds += touch.step[at];
          fact = touch.next[at];
        }
        return seconds;
      };
      for (int round = 0; round < 20; ++round) {
        std::vector<size_t> slots;
        for (const TouchChain::Touch& touch : exact.touches)
          slots.push_back(random() % touch.slots);
        EXPECT_LE(least_of(merged, slots), least_of(exact, slots) * (1 + kRounding) + 1e-15);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
