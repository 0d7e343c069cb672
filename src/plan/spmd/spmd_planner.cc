#include "plan/spmd/spmd_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/spmd/axis_descent.h"
#include "plan/spmd/ratios.h"
#include "plan/spmd/step_list.h"

namespace heddle {
namespace {

struct Start {
  RatioStart start;
  std::string_view name;
};
constexpr std::array kStarts = {Start{RatioStart::kEven, "even ratios"},
                                Start{RatioStart::kSamples, "samples by compute"},
                                Start{RatioStart::kCompute, "ratios by compute"},
                                Start{RatioStart::kMemory, "ratios by memory"}};

// Up to rounding.
bool SameRatios(const SpmdMesh& a, const SpmdMesh& b) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    for (size_t group = 0; group < kRatioGroups; ++group) {
      const bool same = std::equal(a.ratios[axis][group].begin(), a.ratios[axis][group].end(),
                                   b.ratios[axis][group].begin(),
                                   [](double x, double y) { return std::abs(x - y) < 1e-9; });
      if (!same) return false;
    }
  }
  return true;
}

// A program for a mesh with its ratios.
struct Solution {
  SpmdMesh mesh;
  std::vector<int> choices;
  SpmdPlan plan;
  SpmdEstimate estimate;
  std::optional<MemoryLack> lack;

  Bytes missing() const { return lack ? lack->needed - lack->available : Bytes{}; }
  // What fits before what does not; among the former the faster, among the latter what lacks less.
  bool BetterThan(const Solution& other) const {
    if (missing() != other.missing()) return missing() < other.missing();
    return estimate.stage_seconds < other.estimate.stage_seconds;
  }
};

class SpmdPlanner {
 public:
  SpmdPlanner(const Planning& planning, size_t most_plans)
      : planning_(planning), cost_(planning.cost()), most_plans_(most_plans) {}

  Result<std::vector<SpmdCandidate>> Run() {
    PlanOn(FlatMesh(*planning_.cluster));
    if (HasNodeMesh(*planning_.cluster)) PlanOn(NodeMesh(*planning_.cluster));
    std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return a.solution.BetterThan(b.solution);
    });
    if (found_[0].solution.lack) return LackError(*found_[0].solution.lack);
    std::vector<SpmdCandidate> candidates;
    for (Found& one : found_) {
      if (one.solution.lack || candidates.size() == most_plans_) break;
      candidates.push_back(
          {std::move(one.solution.plan), std::move(one.solution.estimate), std::move(one.how)});
    }
    return candidates;
  }

 private:
  struct Found {
    Solution solution;
    std::string how;
  };

  void PlanOn(const SpmdMesh& shape) {
    const std::string size = fmt::format("{} x {} devices", shape.places(0), shape.places(1));
    std::vector<Found> tried;
    std::vector<SpmdMesh> meshes;
    for (const auto& [start, name] : kStarts) {
      const bool fits = std::any_of(tried.begin(), tried.end(),
                                    [](const Found& one) { return !one.solution.lack; });
      if (start == RatioStart::kMemory && fits) continue;
      SpmdMesh mesh = shape;
      SetRatios(*planning_.cluster, planning_.options.dtype, start, mesh);
      const bool again = std::any_of(meshes.begin(), meshes.end(), [&](const SpmdMesh& other) {
        return SameRatios(other, mesh);
      });
      if (again) continue;
      meshes.push_back(mesh);
      const std::vector<int>* like = tried.empty() ? nullptr : &tried[0].solution.choices;
      tried.push_back({SolveFitting(mesh, like), fmt::format("{}, {}", size, name)});
    }
    const auto best = std::min_element(
        tried.begin(), tried.end(),
        [](const Found& a, const Found& b) { return a.solution.BetterThan(b.solution); });
    FitAlternately(*best);
    std::move(tried.begin(), tried.end(), std::back_inserter(found_));
  }

  // Ratios for the program, a program for the ratios, and so on while that helps.
  void FitAlternately(Found& found) {
    constexpr int kMostRounds = 4;
    for (int round = 0; round < kMostRounds; ++round) {
      bool better = false;
      for (size_t axis = 0; axis < kMeshAxes; ++axis) {
        if (found.solution.mesh.places(axis) == 1) continue;
        SpmdProblem problem(cost_, *planning_.cluster, found.solution.mesh);
        const Result<AxisRatios> ratios =
            FitRatios(problem, found.solution.plan, found.solution.estimate, axis);
        if (!ratios.ok()) continue;
        SpmdMesh mesh = found.solution.mesh;
        mesh.ratios[axis] = ratios.value();
        Solution next = SolveFitting(mesh, &found.solution.choices);
        if (!next.BetterThan(found.solution)) continue;
        found.solution = std::move(next);
        better = true;
      }
      if (better && round == 0) found.how += ", fitted";
      if (!better) break;
    }
  }

  // With prices as high as memory demands.
  Solution SolveFitting(const SpmdMesh& mesh, const std::vector<int>* like) const {
    Solution best = Solve(mesh, {}, like);
    if (!best.lack) return best;
    constexpr int kMostRises = 12;
    constexpr double kRise = 4, kFirst = 1e-3;
    // In seconds per byte, on the scale of the step's time over the memory it has.
    const auto memory = static_cast<double>(best.lack->available.value);
    std::vector<double> price(mesh.size(), 0);
    Solution last = best;
    for (int rise = 0; rise < kMostRises && best.lack; ++rise) {
      const double first =
          kFirst * best.estimate.stage_seconds / memory / static_cast<double>(mesh.size());
      for (size_t place = 0; place < price.size(); ++place) {
        const Bytes room = planning_.cluster->type_of(mesh.device(place)).memory;
        if (last.estimate.peak[place] > room) price[place] = std::max(first, price[place] * kRise);
      }
      const std::vector<int> choices = last.choices;
      last = Solve(mesh, price, &choices);
      if (last.BetterThan(best)) best = last;
    }
    return best;
  }

  Solution Solve(const SpmdMesh& mesh, std::vector<double> price,
                 const std::vector<int>* like) const {
    Solution solution;
    solution.mesh = mesh;
    const bool priced = !price.empty();
    SpmdProblem problem(cost_, *planning_.cluster, solution.mesh, {std::move(price)});
    if (mesh.flat()) {
      solution.choices = SearchFlat(problem);
    } else {
      solution.choices = like != nullptr ? ImproveByAxis(problem, *like).choices
                                         : SearchByAxis(problem)[0].choices;
    }
    Estimate(problem, {}, solution);
    if (priced && solution.lack) {
      Solution again = solution;
      Estimate(problem, {.gather_again = true}, again);
      if (again.BetterThan(solution)) solution = std::move(again);
    }
    return solution;
  }

  // Where the sweep had to give up states, at least as good as dividing samples.
  static std::vector<int> SearchFlat(SpmdProblem& problem) {
    constexpr size_t kMostStates = 3000;
    SweepStatistics statistics;
    SpmdChoices best = SearchFolded(problem, {kMostStates, kManyStates}, &statistics);
    if (statistics.exact) return std::move(best.choices);
    const Restriction samples = DividedBy(problem, 1, "b", /*free_updates=*/true);
    SpmdChoices plain = SearchFolded(problem, {kMostStates, kManyStates, &samples});
    return plain.seconds < best.seconds ? std::move(plain.choices) : std::move(best.choices);
  }

  static void Estimate(SpmdProblem& problem, StepOptions options, Solution& solution) {
    solution.plan = StepsOf(problem, solution.choices, options);
    solution.estimate = EstimateOf(problem, solution.plan);
    solution.lack = LackOf(problem, solution.estimate);
  }

  Error LackError(const MemoryLack& lack) const {
    return Infeasible(
        "spmd",
        fmt::format("nothing fits; closest: device {} ({}) needs {} and has {}: {} too much",
                    lack.device.value, planning_.cluster->device(lack.device).name,
                    ToText(lack.needed), ToText(lack.available),
                    ToText(lack.needed - lack.available)),
        "more or larger devices, a smaller batch or --optimizer sgd need less");
  }

  const Planning& planning_;
  OpCost cost_;
  size_t most_plans_;
  std::vector<Found> found_;
};

}  // namespace

Result<std::vector<SpmdCandidate>> PlanSpmd(const Planning& planning, size_t most_plans) {
  return SpmdPlanner(planning, most_plans).Run();
}

}  // namespace heddle
