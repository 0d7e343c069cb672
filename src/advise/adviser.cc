#include "advise/adviser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "choose/survey.h"
#include "lab/map.h"
#include "lab/problems.h"
#include "lab/race.h"
#include "lab/theory.h"

namespace heddle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kTicksPerBatch = 2;  // a forward and a backward

// A kind of training: the planners that may make its plan, and who stands for it in the race.
struct Kind {
  std::string name;
  std::vector<std::string> strategies;
  std::string method;
};

std::vector<Kind> Kinds() {
  Kind synchronous{"synchronous", {}, "gpipe"};
  for (const Planner& planner : Planners()) {
    if (planner.name != "async" && planner.name != "local") {
      synchronous.strategies.push_back(planner.name);
    }
  }
  return {synchronous, {"asynchronous", {"async"}, "pd"}, {"local", {"local"}, "local-plain"}};
}

// With one stage a pipeline is plain training, whatever its method.
RaceEntrant EntrantOf(const Kind& kind, const Plan& plan, const PlanRequest& options) {
  if (plan.async) {
    static constexpr std::string_view kMethods[] = {"pd", "pd-vertical", "pd-nostash", "2bw"};
    return {std::string(kMethods[static_cast<size_t>(plan.async->versions)]),
            static_cast<int>(plan.pipelines[0].stages.size()), 1};
  }
  if (plan.local) return {kind.method, static_cast<int>(plan.local->steps.size()), options.every};
  return {kind.method, 1, 1};
}

// The best plan of a kind, or why there is none, and what is to be told of the others.
struct Considered {
  Kind kind;
  std::optional<Plan> plan;
  std::string reason;
  std::vector<std::string> notes;
};

// "the fastest of 12 strategies; next zb-h1, 2.66 s", and who failed or did not finish.
std::vector<std::string> NotesOn(const std::vector<const Surveyed*>& rows) {
  std::vector<std::string> notes;
  std::vector<const Surveyed*> planned;
  for (const Surveyed* row : rows) {
    if (row->plan) planned.push_back(row);
  }
  if (planned.size() > 1) {
    const auto seconds = [](const Surveyed* row) { return row->plan->seconds_per_batch(); };
    std::stable_sort(planned.begin(), planned.end(),
                     [&](const Surveyed* a, const Surveyed* b) { return seconds(a) < seconds(b); });
    notes.push_back(fmt::format("the fastest of {} strategies; next {}, {}", planned.size(),
                                planned[1]->planner->name, ToText(Seconds{seconds(planned[1])})));
  }
  for (const Surveyed* row : rows) {
    if (row->status == SurveyStatus::kNotFinished) {
      notes.push_back(row->planner->name + ": not finished in the time given (--budget)");
    } else if (row->status == SurveyStatus::kFailed) {
      notes.push_back(row->planner->name + " failed: " + row->error->ToString());
    }
  }
  return notes;
}

std::vector<Considered> BestOfEach(const std::vector<Kind>& kinds, const Planning& planning,
                                   const AdviceOptions& options) {
  std::vector<const Planner*> planners;
  for (const Kind& kind : kinds) {
    for (const std::string& strategy : kind.strategies) {
      planners.push_back(FindPlanner(strategy).value());
    }
  }
  Survey survey(planning, std::move(planners), options.deadline);
  Survey::Watcher watcher;
  watcher.starts = [&](const Planner& planner) {
    options.progress(fmt::format("planning {} …", planner.name));
  };
  const std::vector<Surveyed> rows = survey.Run(watcher);
  std::vector<Considered> all;
  auto next = rows.begin();
  for (const Kind& kind : kinds) {
    Considered& best = all.emplace_back(Considered{kind, std::nullopt, "", {}});
    std::vector<const Surveyed*> mine;
    for (size_t k = 0; k < kind.strategies.size(); ++k, ++next) {
      mine.push_back(&*next);
      if (next->error && best.reason.empty()) best.reason = next->error->what;
      const bool faster = next->plan && (!best.plan || next->plan->seconds_per_batch() <
                                                           best.plan->seconds_per_batch());
      if (faster) best.plan = next->plan;
    }
    best.notes = NotesOn(mine);
  }
  return all;
}

// When a curve of equally distant points is at the target for good: never for one that is not at
// the end.
double ReachedAt(const std::vector<Interval>& curve, const TrialOptions& trial,
                 double Interval::*loss, double target) {
  size_t first = curve.size();
  while (first > 0 && curve[first - 1].*loss <= target) --first;
  if (first == curve.size()) return kNever;
  return static_cast<double>(PointTick(trial, static_cast<int>(first))) / kTicksPerBatch;
}

// What is raced on, and how.
struct Ground {
  ObjectiveOf objective_of;
  RaceOptions race;  // all but who takes part
};

Result<RaceEntry> RaceAlone(const Ground& ground, const RaceEntrant& entrant,
                            const AdviceOptions& options) {
  RaceOptions race = ground.race;
  race.stages = {entrant.stages};
  race.methods = {entrant.method};
  race.trial.every = entrant.every;
  options.progress(fmt::format("racing {} …", entrant.method));
  HEDDLE_ASSIGN(const Race run, RunRace(ground.objective_of, race));
  return run.entries[0];
}

Result<std::vector<Progress>> RaceAll(const Ground& ground,
                                      const std::vector<RaceEntrant>& entrants,
                                      const AdviceOptions& options) {
  std::vector<Progress> progress;
  double target = 0;
  for (const RaceEntrant& entrant : entrants) {
    HEDDLE_ASSIGN(const RaceEntry entry, RaceAlone(ground, entrant, options));
    if (progress.empty()) target = entry.curve[entry.curve.size() / 2].mean;
    progress.push_back({{ReachedAt(entry.curve, ground.race.trial, &Interval::mean, target),
                         ReachedAt(entry.curve, ground.race.trial, &Interval::low, target),
                         ReachedAt(entry.curve, ground.race.trial, &Interval::high, target)},
                        entry.step_size});
  }
  return progress;
}

RaceOptions RaceFor(const AdviceOptions& options) {
  RaceOptions race;
  race.noises = {options.noise};
  race.trial.ticks = kTicksPerBatch * options.batches;
  race.trial.points = 200;
  race.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return race;
}

ObjectiveOptions ProblemOf(const AdviceOptions& options) {
  const MapOptions map;
  return MapProblem(map.objective, map.dimension, options.rows_per_parameter);
}

// As a cell of the map is raced: every seed with data of its own.
Result<std::vector<Progress>> ByMap(const std::vector<RaceEntrant>& entrants,
                                    const AdviceOptions& options) {
  const MapOptions map;
  RaceOptions race = RaceFor(options);
  race.seeds = map.seeds;
  race.tune_seeds = map.tune_seeds;
  race.step_sizes = 6;
  race.refine = 1;
  race.powers_of_two = true;
  HEDDLE_ASSIGN(const DataBySeed data,
                DataBySeed::Make(map.objective, ProblemOf(options), 0, race.seeds + race.tune_seeds,
                                 race.threads));
  if (options.noise_ratio) race.noises = {NoiseForRatio(data.Of(0), *options.noise_ratio)};
  const ObjectiveOf objective_of = [&](uint64_t seed) -> const Objective& { return data.Of(seed); };
  return RaceAll({objective_of, race}, entrants, options);
}

// What the race was, for the notes.
Result<std::string> MapSource(const AdviceOptions& options) {
  const MapOptions map;
  HEDDLE_ASSIGN(const auto objective, MakeProblem(map.objective, ProblemOf(options)));
  double noise = options.noise;
  std::string measured;
  if (options.noise_ratio) {
    noise = NoiseForRatio(*objective, *options.noise_ratio);
    measured = fmt::format(", for a measured noise of {:.3g} times the gradient's square",
                           *options.noise_ratio);
    if (noise == 0) {
      measured +=
          fmt::format(" (one row at a time makes {:.3g} by itself)", RatioWithoutNoise(*objective));
    }
  }
  return fmt::format(
      "the map's race on {} with {} rows per parameter, noise {:.3g}{}; {} batches, each method at "
      "its best step size; 95% intervals (heddle lab map)",
      map.objective, options.rows_per_parameter, noise, measured, options.batches);
}

std::string BatchesText(const Interval& batches) {
  const auto one = [](double value) {
    return std::isinf(value) ? std::string("never") : fmt::format("{:.0f}", value);
  };
  if (batches.low == batches.high) return one(batches.mean);
  return fmt::format("{} [{}, {}]", one(batches.mean), one(batches.low), one(batches.high));
}

std::string LossText(const Interval& batches, double step) {
  if (std::isinf(batches.mean)) return "not at the loss within the race";
  return fmt::format("{} batches to the loss: {}", BatchesText(batches),
                     ToText(Seconds{step * batches.mean}));
}

Result<std::vector<Progress>> ByBound(const std::vector<RaceEntrant>& entrants, int64_t batches) {
  std::vector<Progress> progress;
  for (const RaceEntrant& entrant : entrants) {
    const bool local = entrant.every > 1 || entrant.method == "local-plain";
    const double needed = local ? kNever : BatchesByBound(entrant.stages, batches);
    progress.push_back({{needed, needed, needed}, 0});
  }
  return progress;
}

}  // namespace

double RatioWithoutNoise(const Objective& objective) {
  const auto* rows = dynamic_cast<const LinearModel*>(&objective);
  HEDDLE_CHECK(rows != nullptr);
  const std::vector<double> x = objective.Start(0);
  std::vector<double> gradient(x.size()), mean(x.size());
  Pass pass = objective.MakePass();
  double squares = 0, whole = 0;
  for (int64_t m = 0; m < rows->samples(); ++m) {
    pass.draw = {0, m};
    objective.Gradient(x.data(), pass, gradient.data());
    for (size_t k = 0; k < x.size(); ++k) {
      squares += gradient[k] * gradient[k] / static_cast<double>(rows->samples());
      mean[k] += gradient[k] / static_cast<double>(rows->samples());
    }
  }
  for (const double element : mean) whole += element * element;
  return squares / whole - 1;
}

double NoiseForRatio(const Objective& objective, double ratio) {
  const auto dimension = static_cast<double>(objective.dimension());
  const std::vector<double> x = objective.Start(0);
  const auto* rows = dynamic_cast<const LinearModel*>(&objective);
  HEDDLE_CHECK(rows != nullptr);
  const double whole = rows->WholeGradientSquare(x.data());
  return std::sqrt(std::max(0.0, (ratio - RatioWithoutNoise(objective)) * whole / dimension));
}

Result<std::vector<Progress>> MeasureProgress(const std::vector<RaceEntrant>& entrants,
                                              const AdviceOptions& options) {
  if (options.evidence == "map") return ByMap(entrants, options);
  HEDDLE_ASSIGN(const auto objective, MakeProblem(options.evidence, {}));
  const ObjectiveOf same = [&](uint64_t) -> const Objective& { return *objective; };
  return RaceAll({same, RaceFor(options)}, entrants, options);
}

double BatchesByBound(int stages, int64_t batches) {
  // In block updates: a batch updates every block once, and a block has its part of the gradient.
  const auto bound = [](int count, double updates) {
    BoundInputs inputs;
    inputs.stages = count;
    inputs.gradient = 1 / std::sqrt(static_cast<double>(count));
    inputs.steps = updates * count;
    const Accounting accounting = Accounting::kConstant;
    return BoundAt(inputs, TunedStepWithStale(inputs, accounting), accounting).total();
  };
  const double target = bound(1, static_cast<double>(batches));
  double low = 1, high = static_cast<double>(batches);
  while (bound(stages, high) > target) high *= 2;
  while (high - low > 0.5) {
    const double middle = (low + high) / 2;
    (bound(stages, middle) > target ? low : high) = middle;
  }
  return std::ceil(low);
}

AdviceOptions AdviceFor(const PlanRequest& request) {
  AdviceOptions options;
  options.evidence = request.evidence;
  options.noise = request.noise;
  options.noise_ratio = request.noise_ratio;
  options.rows_per_parameter = request.rows_per_parameter;
  return options;
}

Result<Plan> FastestStep(const Planning& planning, const AdviceOptions& options) {
  Considered best = std::move(BestOfEach({Kinds()[0]}, planning, options)[0]);
  if (!best.plan && options.deadline.passed()) return OutOfTime("auto");
  if (!best.plan) {
    return Infeasible("auto", "no synchronous strategy fits; the first says: " + best.reason,
                      "heddle compare shows what each lacks");
  }
  std::vector<std::string>& notes = best.plan->search.notes;
  notes.insert(notes.begin(), best.notes.begin(), best.notes.end());
  return *std::move(best.plan);
}

std::optional<Plan> BetterPlan(const Planning& planning, const Plan& plan) {
  constexpr int64_t kQuickLook = 20'000;  // ops on a device
  constexpr double kALittle = 0.02;
  const int64_t size = std::ssize(planning.graph.ops()) * planning.cluster->device_count();
  if (size > kQuickLook || !plan.trains_as_one_device()) return std::nullopt;
  std::optional<Plan> better;
  double limit = (1 - kALittle) * plan.seconds_per_batch();
  for (const char* strategy : {"pipeline", "zb-h1", "dp-proportional"}) {
    if (strategy == plan.strategy) continue;
    const Result<Plan> other = MakePlan(strategy, planning);
    if (!other.ok() || other.value().seconds_per_batch() >= limit) continue;
    better = other.value();
    limit = better->seconds_per_batch();
  }
  return better;
}

Result<Plan> FastestToLoss(const Planning& planning, const AdviceOptions& options) {
  const bool by_bound = options.evidence == "bound", by_map = options.evidence == "map";
  // Before the planning: what cannot be raced on.
  std::string source =
      "the convergence bound with L = G = gap = 1 (heddle lab theory); none for local";
  if (by_map) {
    HEDDLE_ASSIGN(source, MapSource(options));
  } else if (!by_bound) {
    HEDDLE_RETURN_IF_ERROR(MakeProblem(options.evidence, {}));
    source = fmt::format(
        "a race on {}, noise {}, {} batches, each method at its best step size; 95% "
        "intervals (heddle lab race)",
        options.evidence, options.noise, options.batches);
  }
  const std::vector<Considered> all = BestOfEach(Kinds(), planning, options);
  std::vector<RaceEntrant> entrants = {{"gpipe", 1, 1}};  // sets the target
  for (const Considered& one : all) {
    if (one.plan) entrants.push_back(EntrantOf(one.kind, *one.plan, planning.request));
  }
  HEDDLE_ASSIGN(const std::vector<Progress> progress, by_bound
                                                          ? ByBound(entrants, options.batches / 2)
                                                          : MeasureProgress(entrants, options));
  std::vector<std::string> notes;
  notes.push_back("evidence: " + source);
  const Considered* taken = nullptr;
  double soonest = kNever;
  size_t next = 1;
  for (const Considered& one : all) {
    if (!one.plan) {
      notes.push_back(fmt::format("{}: no plan; {}", one.kind.name, one.reason));
      continue;
    }
    const Interval& batches = progress[next++].batches;
    const double step = one.plan->seconds_per_batch(), seconds = step * batches.mean;
    notes.push_back(fmt::format(
        "{}: {}, {} a batch, {}", one.kind.name, one.plan->strategy, ToText(Seconds{step}),
        std::isinf(seconds) && by_bound ? "no bound is known" : LossText(batches, step)));
    if (seconds >= soonest) continue;
    soonest = seconds;
    taken = &one;
  }
  if (taken == nullptr) {
    return Infeasible("auto", "no kind of training fits and reaches the loss", Join(notes, "; "));
  }
  Plan plan = *taken->plan;
  plan.search.notes.insert(plan.search.notes.begin(), notes.begin(), notes.end());
  return plan;
}

}  // namespace heddle
