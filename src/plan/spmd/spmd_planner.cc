#include "plan/spmd/spmd_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan/few_microbatches.h"
#include "plan/spmd/astar.h"
#include "plan/spmd/axis_descent.h"
#include "plan/spmd/ratios.h"
#include "plan/spmd/spmd_solver.h"

namespace heddle {
namespace {

// On one axis few models have more; those that do lose little (bench/hap).
constexpr size_t kMostStates = 500;

struct Start {
  RatioStart start;
  std::string_view name;
};
constexpr std::array kStarts = {Start{RatioStart::kEven, "even ratios"},
                                Start{RatioStart::kSamples, "samples by compute"},
                                Start{RatioStart::kCompute, "ratios by compute"},
                                Start{RatioStart::kMemory, "ratios by memory"}};

struct Found {
  SpmdSolution solution;
  std::string how;

  static bool Better(const Found& a, const Found& b) { return a.solution.BetterThan(b.solution); }
};

std::string SizeText(const SpmdMesh& mesh) {
  return fmt::format("{} x {} devices", mesh.places(0), mesh.places(1));
}

Error LackError(const std::string& strategy, const Planning& planning, const MemoryLack& lack) {
  return Infeasible(
      strategy,
      fmt::format("nothing fits; closest: device {} ({}) needs {} and has {}: {} too much",
                  lack.device.value, planning.cluster->device(lack.device).name,
                  ToText(lack.needed), ToText(lack.available),
                  ToText(lack.needed - lack.available)),
      "more or larger devices, a smaller batch or --optimizer sgd need less");
}

SpmdSolver::Search SearchOf(SpmdFamily family) {
  return [family](SpmdProblem& problem, const std::vector<int>* /*like*/) {
    const Restriction restriction = RestrictionTo(problem, family);
    return SearchFolded(problem, {kMostStates, kManyStates, &restriction}).choices;
  };
}

// Where the sweep had to give up states, at least as good as dividing samples.
std::vector<int> SearchFlat(SpmdProblem& problem) {
  SweepStatistics statistics;
  SpmdChoices best = SearchFolded(problem, {kMostStates, kManyStates}, &statistics);
  if (statistics.exact) return std::move(best.choices);
  const Restriction samples = RestrictionTo(problem, SpmdFamily::kZero);
  SpmdChoices plain = SearchFolded(problem, {kMostStates, kManyStates, &samples});
  return plain.seconds < best.seconds ? std::move(plain.choices) : std::move(best.choices);
}

std::vector<int> SearchAny(SpmdProblem& problem, const std::vector<int>* like) {
  if (problem.mesh().flat()) return SearchFlat(problem);
  return like != nullptr ? ImproveByAxis(problem, *like).choices : SearchByAxis(problem)[0].choices;
}

// What the folded program finds, and then A*, from there.
SpmdSolver::Search SearchBy(const Planning& planning) {
  if (planning.request.search != SpmdSearch::kAStar) return &SearchAny;
  return [deadline = planning.deadline](SpmdProblem& problem, const std::vector<int>* like) {
    const std::vector<int> folded = SearchAny(problem, like);
    return SearchAStar(problem, {.incumbent = &folded, .deadline = deadline}).best.choices;
  };
}

class SpmdPlanner {
 public:
  SpmdPlanner(const Planning& planning, const SpmdAim& aim)
      : planning_(planning), solver_(planning), search_(SearchBy(planning)), aim_(aim) {}

  Result<std::vector<SpmdCandidate>> Run() {
    const Cluster& cluster = *planning_.cluster;
    for (const NodeSet& nodes : NodeSets(cluster, planning_.request.dtype)) {
      if (!late()) PlanOn(FlatMesh(cluster, nodes));
      if (!late() && HasNodeMesh(cluster, nodes)) PlanOn(NodeMesh(cluster, nodes));
    }
    constexpr size_t kMostPlans = 4;
    KeepBest(0, kMostPlans);
    AddFamilies(RatioStart::kEven);
    const size_t as_they_do = found_.size();
    AddFamilies(RatioStart::kSamples);
    constexpr size_t kMostBySpeed = 2;
    KeepBest(as_they_do, kMostBySpeed);
    return Candidates("spmd");
  }

  Result<std::vector<SpmdCandidate>> RunFamily(SpmdFamily family, const std::string& strategy) {
    AddFamily(family, RatioStart::kEven);
    return Candidates(strategy);
  }

 private:
  void PlanOn(const SpmdMesh& shape) {
    std::vector<Found> tried;
    std::vector<SpmdMesh> meshes;
    for (const auto& [start, name] : kStarts) {
      if (late() && !tried.empty()) break;
      const bool fits = std::any_of(tried.begin(), tried.end(),
                                    [](const Found& one) { return !one.solution.lack; });
      if (start == RatioStart::kMemory && fits) continue;
      SpmdMesh mesh = shape;
      SetRatios(*planning_.cluster, planning_.request.dtype, start, mesh);
      const bool again = std::any_of(meshes.begin(), meshes.end(), [&](const SpmdMesh& other) {
        return SameRatios(other, mesh);
      });
      if (again) continue;
      meshes.push_back(mesh);
      const std::vector<int>* like = tried.empty() ? nullptr : &tried[0].solution.choices;
      tried.push_back({solver_.Solve(mesh, search_, {.like = like}),
                       fmt::format("{}, {}", SizeText(shape), name)});
    }
    FitAlternately(*std::min_element(tried.begin(), tried.end(), &Found::Better));
    std::move(tried.begin(), tried.end(), std::back_inserter(found_));
  }

  // Ratios for the program, a program for the ratios, and so on while that helps.
  void FitAlternately(Found& found) {
    constexpr int kMostRounds = 4;
    for (int round = 0; round < kMostRounds && !late(); ++round) {
      bool better = false;
      for (size_t axis = 0; axis < kMeshAxes; ++axis) {
        if (found.solution.mesh.places(axis) == 1 || late()) continue;
        const Result<AxisRatios> ratios =
            FitRatios(solver_.ProblemOn(found.solution.mesh), found.solution.plan,
                      found.solution.estimate, axis);
        if (!ratios.ok()) continue;
        SpmdMesh mesh = found.solution.mesh;
        mesh.ratios[axis] = ratios.value();
        if (SameRatios(mesh, found.solution.mesh)) continue;
        SpmdSolution next = solver_.Solve(mesh, search_, {.like = &found.solution.choices});
        if (!next.BetterThan(found.solution)) continue;
        found.solution = std::move(next);
        better = true;
      }
      if (better && round == 0) found.how += ", fitted";
      if (!better) break;
    }
  }

  // Of what was found since, the best by estimate.
  void KeepBest(size_t since, size_t most) {
    std::stable_sort(found_.begin() + static_cast<std::ptrdiff_t>(since), found_.end(),
                     &Found::Better);
    if (found_.size() > since + most) found_.resize(since + most);
  }

  void AddFamilies(RatioStart start) {
    for (int family = 0; family < kSpmdFamilies; ++family) {
      AddFamily(static_cast<SpmdFamily>(family), start);
    }
  }

  void AddFamily(SpmdFamily family, RatioStart start) {
    for (SpmdMesh& mesh : MeshesFor(family, planning_.graph, *planning_.cluster)) {
      if (late()) break;
      const SpmdMesh even = mesh;
      SetRatios(*planning_.cluster, planning_.request.dtype, start, mesh);
      if (start != RatioStart::kEven && SameRatios(mesh, even)) continue;
      const bool chooses = family == SpmdFamily::kTensor;
      Found one{chooses ? solver_.Solve(mesh, SearchOf(family), {})
                        : solver_.Solve(mesh, SearchOf(family), {.most_rises = 0}),
                fmt::format("{} as {}{}", SizeText(mesh), NameOf(family),
                            start == RatioStart::kEven ? "" : ", samples by compute")};
      const bool again = std::any_of(found_.begin(), found_.end(), [&](const Found& other) {
        const SpmdSolution &a = one.solution, &b = other.solution;
        return a.mesh.rows == b.mesh.rows && SameRatios(a.mesh, b.mesh) && a.choices == b.choices &&
               a.plan.steps.size() == b.plan.steps.size();
      });
      if (!again) found_.push_back(std::move(one));
    }
  }

  Result<std::vector<SpmdCandidate>> Candidates(const std::string& strategy) {
    std::vector<SpmdCandidate> candidates;
    std::vector<SpmdProblem*> problems;
    double fastest = std::numeric_limits<double>::infinity();
    for (const Found& one : found_) {
      if (!one.solution.lack) fastest = std::min(fastest, one.solution.estimate.stage_seconds);
    }
    const bool squeezed = solver_.fastest_without_room() < fastest;
    for (Found& one : found_) {
      if (one.solution.lack) continue;
      candidates.push_back({std::move(one.solution.plan),
                            std::move(one.solution.estimate),
                            std::move(one.how),
                            squeezed,
                            {},
                            {}});
      problems.push_back(&solver_.ProblemOn(one.solution.mesh));
      Judge(*problems.back(), candidates.back());
    }
    RaiseBounds(problems, candidates);
    if (!candidates.empty()) return candidates;
    if (found_.empty()) return OutOfTime(strategy);
    const auto closest = std::min_element(found_.begin(), found_.end(), &Found::Better);
    return LackError(strategy, planning_, *closest->solution.lack);
  }

  // With so many microbatches as are meant, each in both ways to exchange gradients.
  void Judge(SpmdProblem& problem, SpmdCandidate& candidate) const {
    SpmdPlan& plan = candidate.plan;
    candidate.times = candidate.times_each = StepTimesOf(problem, plan, aim_.microbatches);
    if (aim_.microbatches == 1) return;
    candidate.fits = !LackOf(problem, LaterEstimateOf(problem, plan));
    plan.converts_each = true;
    candidate.times_each = StepTimesOf(problem, plan, aim_.microbatches);
    candidate.fits_each = !LackOf(problem, LaterEstimateOf(problem, plan));
    plan.converts_each = false;
  }

  // One way to carry out a candidate.
  struct Way {
    size_t candidate;
    bool each;
    StepTimes* times;
  };

  // What they take, for those that may be the fastest; the likeliest first, so that for few it has
  // to be found. Nobody looks at large ones that should take 5% more than the best.
  void RaiseBounds(const std::vector<SpmdProblem*>& problems,
                   std::vector<SpmdCandidate>& candidates) const {
    constexpr double kSure = 1.05;
    std::vector<Way> ways;
    for (size_t k = 0; k < candidates.size(); ++k) {
      SpmdCandidate& one = candidates[k];
      if (one.fits) ways.push_back({k, false, &one.times});
      if (one.fits_each && aim_.microbatches > 1) ways.push_back({k, true, &one.times_each});
    }
    std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
      return a.times->likely() < b.times->likely();
    });
    const bool large = IsLargeProgram(planning_, aim_.microbatches);
    double best = aim_.limit;
    for (const Way& way : ways) {
      StepTimes& times = *way.times;
      if (times.least >= best || (large && times.expected >= kSure * best)) continue;
      SpmdPlan& plan = candidates[way.candidate].plan;
      plan.converts_each = way.each;
      const double seconds =
          ScheduleBound(*problems[way.candidate], plan, aim_.microbatches, planning_.request.links);
      plan.converts_each = false;
      times.least = std::max(times.least, seconds);
      if (seconds > 0) best = std::min(best, times.least);
    }
  }

  bool late() const { return planning_.deadline.passed(); }

  const Planning& planning_;
  SpmdSolver solver_;
  SpmdSolver::Search search_;
  SpmdAim aim_;
  std::vector<Found> found_;
};

}  // namespace

bool IsLargeProgram(const Planning& planning, int64_t microbatches) {
  constexpr int64_t kFewOps = 10'000;
  const int64_t ops = std::ssize(planning.graph.ops()) * planning.cluster->device_count();
  return std::min(microbatches, kFewMicrobatches.back()) * ops > kFewOps;
}

Result<std::vector<SpmdCandidate>> PlanSpmd(const Planning& planning, const SpmdAim& aim) {
  return SpmdPlanner(planning, aim).Run();
}

Result<std::vector<SpmdCandidate>> PlanFamily(const Planning& planning, const SpmdAim& aim,
                                              SpmdFamily family, const std::string& strategy) {
  return SpmdPlanner(planning, aim).RunFamily(family, strategy);
}

}  // namespace heddle
