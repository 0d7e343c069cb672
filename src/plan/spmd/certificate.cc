#include "plan/spmd/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/spmd/axis_descent.h"
#include "plan/spmd/step_list.h"

namespace heddle {
namespace {

// Of a plan that was just made.
Error Broken(std::string what) {
  return Error{ErrorKind::kInternal, "certified plan", std::move(what), ""};
}

Result<std::vector<int>> ChoicesOf(const SpmdProblem& problem, const SpmdPlan& plan) {
  std::vector<int> choices(problem.ops().size(), -1);
  for (const SpmdStep& step : plan.steps) {
    if (step.converts()) continue;
    const auto op = static_cast<size_t>(step.op.value);
    const std::vector<OpChoice>& all = *problem.ops()[op].choices;
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const OpChoice& choice) { return choice.rule == step.rule; });
    if (found == all.end()) return Broken("has a rule that is none");
    choices[op] = static_cast<int>(found - all.begin());
  }
  if (std::find(choices.begin(), choices.end(), -1) != choices.end()) {
    return Broken("lacks an op");
  }
  return choices;
}

// The program as a plan that fits, with weights gathered once or twice; nothing: neither does.
std::optional<SpmdPlan> FittingPlan(SpmdProblem& problem, const std::vector<int>& choices) {
  for (const bool again : {false, true}) {
    SpmdPlan plan = StepsOf(problem, choices, {.gather_again = again});
    if (!LackOf(problem, EstimateOf(problem, plan))) return plan;
  }
  return std::nullopt;
}

// The cheapest program that the fold finds, whether it fits or not. What fits may cost much more
// than the cheapest of all; passes over the potentials leave out the more, and are the faster, the
// cheaper the program is that they are to be below.
std::vector<int> CheapestKnown(SpmdProblem& problem, const std::vector<int>& choices) {
  constexpr size_t kMostStates = 500;
  SpmdChoices folded = problem.mesh().flat() ? SearchFolded(problem, {kMostStates, kManyStates})
                                             : ImproveByAxis(problem, choices);
  return folded.seconds < problem.SecondsOf(choices) ? std::move(folded.choices) : choices;
}

// Passes over the potentials and states take longer the deeper a model is. Whoever asks for A* gets
// it whole; else the certificate must not take longer than the plan. The first passes raise the
// bound most: of BERT with 48 layers on 2 x 4 devices four of nine do 99.8% of it. Without prices
// for bytes limits hardly raise the bound, so that it is not looked for what fits either.
AStarOptions EffortFor(SpmdSearch search, const Graph& graph) {
  constexpr int64_t kFewOps = 1000, kOpsOfAllPasses = 10'000, kOpsOfAllStates = 1'000'000;
  AStarOptions effort;
  const int64_t ops = std::ssize(graph.ops());
  if (search == SpmdSearch::kAStar || ops <= kFewOps) return effort;
  effort.most_passes = static_cast<int>(std::max<int64_t>(3, kOpsOfAllPasses / ops));
  effort.most_expanded = kOpsOfAllStates / ops;
  effort.byte_prices = false;
  return effort;
}

}  // namespace

Result<SpmdMesh> MeshOf(const Cluster& cluster, const SpmdPlan& plan) {
  SpmdMesh mesh;
  for (const std::vector<std::string>& row : plan.mesh) {
    mesh.rows.emplace_back();
    for (const std::string& name : row) {
      const auto device = cluster.FindDevice(name);
      if (!device) return Broken("has a device of another cluster");
      mesh.rows.back().push_back(*device);
    }
  }
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    for (size_t group = 0; group < kRatioGroups; ++group) {
      mesh.ratios[axis][group] = plan.ratios[axis][group];
    }
  }
  return mesh;
}

Result<Certified> Certify(const Planning& planning, const SpmdPlan& plan,
                          const AStarOptions& effort) {
  HEDDLE_ASSIGN(const SpmdMesh mesh, MeshOf(*planning.cluster, plan));
  const OpCost cost = planning.cost();
  SpmdProblem problem(cost, *planning.cluster, mesh);
  HEDDLE_ASSIGN(const std::vector<int> choices, ChoicesOf(problem, plan));
  const double seconds = EstimateOf(problem, plan).additive_seconds;
  AStarOptions options = effort;
  const bool whole = effort.byte_prices;  // all passes, all states
  const std::vector<int> known = whole ? choices : CheapestKnown(problem, choices);
  options.incumbent = &known;
  options.deadline = planning.deadline;
  AStarResult found = SearchAStar(problem, options);
  std::optional<SpmdPlan> better = FittingPlan(problem, found.best.choices);
  if (!better && whole) {
    const MemoryLimits limits(problem);
    options.limits = &limits;
    options.fits = [&](const std::vector<int>& other) {
      return FittingPlan(problem, other).has_value();
    };
    AStarResult fitting = SearchAStar(problem, options);
    fitting.bound = std::max(fitting.bound, found.bound);
    fitting.expanded += found.expanded;
    found = std::move(fitting);
    better = FittingPlan(problem, found.best.choices);
  }
  Certified certified;
  certified.certificate = {"astar", seconds, std::min(found.bound, seconds), found.expanded};
  constexpr double kWorthwhile = 1 - 1e-6;
  const double other = better ? EstimateOf(problem, *better).additive_seconds : seconds;
  if (other < kWorthwhile * seconds) {
    better->converts_each = plan.converts_each;
    certified.better = std::move(better);
    certified.better_seconds = other;
  }
  return certified;
}

Result<std::optional<SearchCertificate>> CertifyBest(const Planning& planning,
                                                     const std::string& strategy, Best& best) {
  if (!best.plan() || !best.plan()->spmd) return std::optional<SearchCertificate>();
  const int64_t microbatches = best.plan()->microbatches;
  PlanRequest request = planning.request;
  request.batch /= microbatches;
  HEDDLE_ASSIGN(const Planning part,
                Planning::Make(request, *planning.cluster, planning.profile, planning.deadline));
  HEDDLE_ASSIGN(Certified certified,
                Certify(part, *best.plan()->spmd, EffortFor(planning.request.search, part.graph)));
  SearchCertificate certificate = std::move(certified.certificate);
  if (certified.better) {
    Plan plan = planning.Blank(strategy, "");
    plan.microbatches = microbatches;
    plan.spmd = std::move(certified.better);
    const SpmdPlan& spmd = *plan.spmd;
    std::string how = fmt::format("{} x {} devices, by A*", spmd.mesh.size(), spmd.mesh[0].size());
    if (microbatches > 1) how += fmt::format(", {} microbatches", microbatches);
    HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                  best.TryAll({std::move(plan)}, {std::move(how)}));
    if (outcomes[0] == Best::Outcome::kFastest) certificate.cost_seconds = certified.better_seconds;
  }
  return std::optional(std::move(certificate));
}

}  // namespace heddle
