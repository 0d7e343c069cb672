// SpmdSolver: a program for a mesh with given ratios, that fits the memory if one is found.
//
// A program that does not fit is searched again with a price on bytes, which rises where they lack:
// a Lagrangian, so what is found is good but not sure to be the best that fits.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "plan/planning.h"
#include "plan/spmd/estimate.h"

namespace heddle {

struct SpmdSolution {
  SpmdMesh mesh;
  std::vector<int> choices;
  SpmdPlan plan;
  SpmdEstimate estimate;
  std::optional<MemoryLack> lack;

  Bytes missing() const { return lack ? lack->needed - lack->available : Bytes{}; }
  // What fits before what does not; among the former the faster, among the latter what lacks less.
  bool BetterThan(const SpmdSolution& other) const {
    if (missing() != other.missing()) return missing() < other.missing();
    return estimate.stage_seconds < other.estimate.stage_seconds;
  }
};

// Up to rounding.
bool SameRatios(const SpmdMesh& a, const SpmdMesh& b);

class SpmdSolver {
 public:
  // `like`, unless null, was good for the same mesh with other ratios or prices.
  using Search =
      std::function<std::vector<int>(SpmdProblem& problem, const std::vector<int>* like)>;

  // The planning must outlive this.
  explicit SpmdSolver(const Planning& planning)
      : planning_(planning), cost_(planning.cost()), alike_(Alike::Of(planning.graph)) {}

  // Without a price on memory; made once for each mesh.
  SpmdProblem& ProblemOn(const SpmdMesh& mesh);

  struct Options {
    const std::vector<int>* like = nullptr;
    // How often prices may rise. 0: a search that has no choice between time and memory, beyond
    // gathering weights twice.
    int most_rises = 12;
  };
  SpmdSolution Solve(const SpmdMesh& mesh, const Search& search, const Options& options);

  // Of all that was found without a price and does not fit, the least time; infinite: all of it
  // fits. With more memory, or fewer samples at a time, that is what a plan could take.
  double fastest_without_room() const { return fastest_without_room_; }

 private:
  struct Made {
    Made(const SpmdMesh& shape, const OpCost& cost, const Cluster& cluster,
         SpmdProblemOptions options)
        : mesh(shape), problem(cost, cluster, mesh, std::move(options)) {}
    SpmdMesh mesh;
    SpmdProblem problem;
  };

  static SpmdSolution SolveProblem(SpmdProblem& problem, const Search& search,
                                   const std::vector<int>* like, bool may_gather_again);

  FoldedSteps steps() const { return made_.empty() ? nullptr : made_[0]->problem.steps(); }

  const Planning& planning_;
  OpCost cost_;
  std::shared_ptr<const Alike> alike_;
  std::vector<std::unique_ptr<Made>> made_;
  double fastest_without_room_ = std::numeric_limits<double>::infinity();
};

}  // namespace heddle
