// The adviser: which kind of training is best on this cluster, and on what evidence.
//
//   HEDDLE_ASSIGN(const Plan plan, FastestStep(planning));            the fastest that equals one
//   device HEDDLE_ASSIGN(const Plan plan, FastestToLoss(planning, options)); the soonest at a given
//   loss
//
// A step that waits for nobody is faster and achieves less. Seconds per batch come from the
// simulator, for the best plan of each kind; batches until a loss, from a race of the three methods
// (lab/race.h): on the problem of the map (lab/map.h) with the user's noise and rows for each
// parameter, or on another objective; or, for synchronous and asynchronous training, from the
// convergence bound (lab/theory.h). Time to loss is their product. What was used is told in the
// plan's notes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/interval.h"
#include "base/result.h"
#include "lab/objective.h"
#include "plan/planning.h"

namespace heddle {

struct AdviceOptions {
  std::string evidence = "map";       // or the objective raced on (lab/problems.h), or "bound"
  double noise = 0.2;                 // σ of gradients in the race
  std::optional<double> noise_ratio;  // map: the same as what a run measured (run/gradient_noise.h)
  double rows_per_parameter = 1;      // map
  int64_t batches = 1000;             // length of the race
  Deadline deadline;                  // of the planning
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// What the request says of it.
AdviceOptions AdviceFor(const PlanRequest& request);

// Batches until a method is at the target; the ends are where its interval is. Infinite: not within
// the race.
struct Progress {
  Interval batches;
  double step_size = 0;
};

// What a kind of training reads, for the race.
struct RaceEntrant {
  std::string method;  // lab/methods.h: one batch is two ticks of its clock
  int stages = 1;
  int64_t every = 1;  // local updates between averages
};

// σ for which a microbatch of the map's problem has, where a race starts, so much noise for each
// gradient's square: what its rows leave of that, or 0 if they alone make more. The other way
// round, what they make by themselves.
double NoiseForRatio(const Objective& objective, double ratio);
double RatioWithoutNoise(const Objective& objective);

// The target is what the first entrant is at after half of the race.
Result<std::vector<Progress>> MeasureProgress(const std::vector<RaceEntrant>& entrants,
                                              const AdviceOptions& options);

// Batches until the bound of a pipeline of so many stages is below what one of one stage reaches in
// `batches`, all constants 1. REQUIRES: stages, batches >= 1.
double BatchesByBound(int stages, int64_t batches);

// A plan of another strategy that also trains as one device and is faster by more than a little,
// after a look at those that usually are. Nothing on models and clusters for which a look takes
// long: heddle compare is for that.
std::optional<Plan> BetterPlan(const Planning& planning, const Plan& plan);

Result<Plan> FastestStep(const Planning& planning, const AdviceOptions& options);
Result<Plan> FastestToLoss(const Planning& planning, const AdviceOptions& options);

}  // namespace heddle
