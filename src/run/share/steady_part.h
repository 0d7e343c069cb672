// The steady part of a share: steps of jobs that have warmed up and are all there, against steps of
// the same jobs alone that have warmed up too. Gains come from it and nothing else: what starting
// up takes is no property of sharing, and short runs would count it on one side only.
//
//   const SteadyPart part = SteadyPartOf(alone, shared);      // step ends, ns, by job
//   const SteadyFigures figures = FiguresOf(part, /*limit=*/2);
//   figures.gain->mean                            what is done in a second, against alone
//
// With t and s the mean seconds of a job's step, alone and shared, its slowdown is s / t. In a
// second of sharing it makes 1 / s steps, which alone take t / s: the gain, seconds of work done in
// a second, is the sum of t / s over the jobs, also where they are not equally often at turn.
//
// Warm-up: of the first quarter of a job's steps those are left out whose absence gives the mean
// of the rest the smallest standard error, Σ (x - mean)² / n² (the MSER rule of simulation output
// analysis). A shared step counts if it lies between the last job's warm-up and the first job's
// end.
//
// Intervals hold with 95%. Steps that follow each other are not independent, so each job's are cut
// into ten runs of equal length; an estimate is made again without each run (jackknife), of the
// shared part without the same run of all jobs, since they wait for each other. Variances of the
// shared part and of each job alone add up; degrees of freedom by Welch and Satterthwaite.
// What drifts more slowly than a tenth of the steady part is not seen.
//
// No job is faster shared than alone, and no gain is above its limit. An interval is cut off there,
// which leaves it its 95%. Where all of it lies beyond, by more than the 2% to which two emulated
// runs agree, the two parts were not measured under the same conditions, and there is no figure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/interval.h"

namespace heddle {

// Turns in the steady part that are enough for the intervals to mean what they say: ten runs of
// three.
inline constexpr int64_t kEnoughTurns = 30;

using StepEnds = std::vector<int64_t>;  // ns, in order

// Steps in seconds, by job. Empty where a job had no steady steps.
struct SteadyPart {
  std::vector<std::vector<double>> alone, shared;
  // The same as numbers of step_ends: steps first + 1 … last.
  struct Steps {
    size_t first = 0, last = 0;
    size_t count() const { return last - first; }
  };
  std::vector<Steps> alone_steps, shared_steps;

  // Of the job that has fewest, shared or, if that was run, alone.
  int64_t turns() const;
};

// `alone` may be empty: then so is the part's.
SteadyPart SteadyPartOf(std::span<const StepEnds> alone, std::span<const StepEnds> shared);

// How many of the first steps are warm-up.
size_t WarmUpOf(std::span<const double> steps);

struct SteadyFigures {
  std::optional<Interval> gain;
  std::vector<std::optional<Interval>> slowdown;  // by job
  std::optional<Interval> period;                 // seconds of the slowest job's step
  bool impossible = false;  // the gain or a slowdown was, and so there is no gain
};

// `limit`: what the gain cannot exceed; it is at most the number of jobs.
SteadyFigures FiguresOf(const SteadyPart& part, double limit);

}  // namespace heddle
