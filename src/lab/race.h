// Race: every method with its best step size, under one clock.
//
//   RaceOptions options;
//   options.stages = {2, 4, 8};
//   options.methods = {"pd", "local", "gpipe"};
//   HEDDLE_ASSIGN(const Race race, RunRace(objective, options));
//   race.entries[0].final.mean                    loss of the first method at the end
//
// One grid of step sizes for all: `step_sizes` points a factor √2 apart, the highest 2/L, or powers
// of two. The best is the one with the lowest mean loss at the end over `tune_seeds` seeds, which
// are others than those it is then judged on: a method with more variance would gain more from
// being chosen on the seeds that count. Where that is the grid's first or
// last point the grid goes on there, on the same points, until it is not: an optimum at an edge is
// never reported. Then each method gets `refine` times two points more, halfway between its best
// and the neighbours: on stiff problems the best step size lies just below the largest stable one,
// and a coarse grid would race the luck of its points. The result does not depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/interval.h"
#include "base/result.h"
#include "lab/standing.h"
#include "lab/trial.h"

namespace heddle {

struct RaceOptions {
  std::vector<int> stages = {2, 4, 8, 16, 32};
  std::vector<std::string> methods = {"pd", "rpd", "local", "local-plain", "gpipe", "2bw"};
  std::vector<double> noises = {0};
  int seeds = 5;
  uint64_t first_seed = 0;
  int tune_seeds = 5;  // those after the ones above; 0: tuned on those it is judged on
  int step_sizes = 16;
  int refine = 3;
  bool powers_of_two = false;  // step sizes 2^k, the highest at most 2/L, instead of 2/L · 2^(-k/2)
  // If given, the best step size is the one that comes down to this loss first, in the mean over
  // the seeds; where none does with every seed, the one with the lowest loss at the end, as
  // without.
  std::optional<double> target;
  PipelineClock clock;  // its stages are set for each entry
  TrialOptions trial;
  int threads = 2;
  // Called now and then from the calling thread: trials done, trials known.
  std::function<void(int64_t, int64_t)> progress;
};

// A method on so many stages, at its best step size.
struct RaceEntry {
  double noise = 0;
  int stages = 0;
  std::string method;
  double step_size = 0;
  int tried = 0;                // step sizes
  double tuned = 0;             // mean loss at the end on the seeds it was tuned on
  int64_t rounds = 0;           // of a local method: those that end within the race; else 0
  std::vector<double> left;     // by seed: loss at the end less the lowest
  int diverged = 0;             // of the seeds it is judged on; with any there is no ratio
  Interval final;               // loss at the end
  std::vector<Interval> curve;  // loss at each PointTick
  // What is left above the lowest loss at the end, over what the first method leaves on the same
  // stages and noise: the geometric mean over seeds, which share start and noise. Nothing if a
  // trial is at the lowest loss to rounding, or diverged.
  std::optional<Interval> against_first;
  Standing verdict = Standing::kOpen;  // over all entries of the race but the first methods'
  std::optional<Interval> held_out;    // at the end, where the objective has such samples
  std::optional<Interval> staleness;  // ‖x - z‖², of methods that read stale weights, if asked for
  // With a target: how many seeds came down to it; if all did, the ticks they took, and those over
  // what the first method took, as above.
  int reached = 0;
  std::optional<Interval> ticks_to_target;
  std::optional<Interval> ticks_against_first;
};

struct Race {
  std::vector<RaceEntry> entries;  // by noise, stages, method, as the options name them
  double lowest_step = 0;          // of the grid before it was extended
  double highest_step = 0;
};

// A local method with fewer rounds says little: what is left of the last weighs too much.
inline constexpr int64_t kFewRounds = 8;

// The objective of a seed: the same, or one with data of its own. All of one dimension.
using ObjectiveOf = std::function<const Objective&(uint64_t)>;

// Bad input: options out of range. Infeasible: a method without a best step size.
Result<Race> RunRace(const Objective& objective, const RaceOptions& options);
Result<Race> RunRace(const ObjectiveOf& objective_of, const RaceOptions& options);

}  // namespace heddle
