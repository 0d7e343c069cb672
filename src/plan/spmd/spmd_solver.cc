#include "plan/spmd/spmd_solver.h"

#include <algorithm>
#include <cmath>

#include "plan/spmd/step_list.h"

namespace heddle {

bool SameRatios(const SpmdMesh& a, const SpmdMesh& b) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    for (size_t group = 0; group < kRatioGroups; ++group) {
      const bool same = std::equal(a.ratios[axis][group].begin(), a.ratios[axis][group].end(),
                                   b.ratios[axis][group].begin(), b.ratios[axis][group].end(),
                                   [](double x, double y) { return std::abs(x - y) < 1e-9; });
      if (!same) return false;
    }
  }
  return true;
}

SpmdProblem& SpmdSolver::ProblemOn(const SpmdMesh& mesh) {
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const auto& made) {
    return made->mesh.rows == mesh.rows && made->mesh.ratios == mesh.ratios;
  });
  if (found != made_.end()) return (*found)->problem;
  made_.push_back(std::make_unique<Made>(mesh, cost_, *planning_.cluster,
                                         SpmdProblemOptions{alike_, steps(), planning_.deadline}));
  return made_.back()->problem;
}

SpmdSolution SpmdSolver::Solve(const SpmdMesh& mesh, const Search& search, const Options& options) {
  SpmdProblem& problem = ProblemOn(mesh);
  problem.SetPrices({});
  SpmdSolution best = SolveProblem(problem, search, options.like, options.most_rises == 0);
  if (best.lack) {
    fastest_without_room_ = std::min(fastest_without_room_, best.estimate.stage_seconds);
  }
  if (!best.lack || options.most_rises == 0) return best;
  constexpr double kRise = 4, kFirst = 1e-3;
  // In seconds per byte, on the scale of the step's time over the memory it has.
  const auto memory = static_cast<double>(best.lack->available.value);
  const double first =
      kFirst * best.estimate.stage_seconds / memory / static_cast<double>(mesh.size());
  const auto solve_at = [&](const std::vector<double>& price, const std::vector<int>& like) {
    problem.SetPrices(price);
    return SolveProblem(problem, search, &like, /*may_gather_again=*/true);
  };
  // What does not fit at the highest price does not fit at all.
  SpmdSolution smallest = solve_at(
      std::vector<double>(mesh.size(), first * std::pow(kRise, options.most_rises)), best.choices);
  std::vector<double> price(mesh.size(), 0);
  SpmdSolution last = best;
  const Deadline& deadline = planning_.deadline;
  for (int rise = 0; rise < options.most_rises && !smallest.lack && last.lack; ++rise) {
    if (deadline.passed()) break;
    for (size_t place = 0; place < price.size(); ++place) {
      const Bytes room = planning_.cluster->type_of(mesh.device(place)).memory;
      if (last.estimate.peak[place] > room) price[place] = std::max(first, price[place] * kRise);
    }
    last = solve_at(price, last.choices);
    if (last.BetterThan(best)) best = last;
  }
  problem.SetPrices({});
  return smallest.BetterThan(best) ? smallest : best;
}

SpmdSolution SpmdSolver::SolveProblem(SpmdProblem& problem, const Search& search,
                                      const std::vector<int>* like, bool may_gather_again) {
  SpmdSolution solution;
  solution.mesh = problem.mesh();
  solution.choices = search(problem, like);
  const auto estimate = [&](SpmdSolution& one, StepOptions options) {
    one.plan = StepsOf(problem, one.choices, options);
    one.estimate = EstimateOf(problem, one.plan);
    one.lack = LackOf(problem, one.estimate);
  };
  estimate(solution, {});
  if (may_gather_again && solution.lack) {
    SpmdSolution again = solution;
    estimate(again, {.gather_again = true});
    if (again.BetterThan(solution)) solution = std::move(again);
  }
  return solution;
}

}  // namespace heddle
