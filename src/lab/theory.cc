#include "lab/theory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/check.h"
#include "base/philox.h"
#include "base/units.h"
#include "lab/pipedream.h"
#include "lab/randomized.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

// x ← x - γλ x^{-(τ)} with a delay of τ updates is stable up to γλ = 2 sin(π / (2(2τ + 1))), a
// classical result on delay difference equations; τ = S - 1 on the first stage.
double HalfOfStable(double smoothness, int stages) {
  return std::sin(std::numbers::pi / (2 * (2.0 * stages - 1))) / smoothness;
}

// One trial's means.
struct Measured {
  double distance = 0;
  double gradient = 0;
  double largest = 0;
  bool diverged = false;
};

using Measurements = std::vector<std::vector<Measured>>;  // by stages, then seed

Measured Measure(const Trial& trial, bool randomized) {
  Staleness staleness;
  const Curve curve = randomized ? RunRandomized(trial, DelayMode::kUniform, &staleness)
                                 : RunPipeDream(trial, {.staleness = &staleness});
  const auto updates = static_cast<double>(std::max<int64_t>(staleness.updates, 1));
  return {staleness.distance / updates, staleness.gradient / updates, staleness.largest,
          curve.diverged};
}

StalenessFit Fit(const StalenessOptions& options, double step_size, const Measurements& measured) {
  StalenessFit fit;
  std::vector<double> log_stages, log_distances, log_counts;
  std::set<int> fitted;
  for (size_t k = 0; k < options.stages.size(); ++k) {
    StalenessRow row;
    row.stages = options.stages[k];
    std::vector<double> distances, gradients, counts;
    for (const Measured& one : measured[k]) {
      distances.push_back(one.distance);
      gradients.push_back(one.gradient);
      counts.push_back(one.distance / (step_size * step_size * one.gradient));
      row.largest = std::max(row.largest, one.largest);
      if (one.distance == 0) continue;  // one stage reads what it changes
      fitted.insert(row.stages);
      log_stages.push_back(std::log(row.stages));
      log_distances.push_back(std::log(distances.back()));
      log_counts.push_back(std::log(counts.back()));
    }
    row.distance = MeanInterval(distances);
    row.gradient = MeanInterval(gradients);
    row.count = MeanInterval(counts);
    fit.rows.push_back(row);
  }
  if (fitted.size() >= 3) {
    fit.distance_exponent = FitSlope(log_stages, log_distances);
    fit.count_exponent = FitSlope(log_stages, log_counts);
  }
  return fit;
}

Status CheckStudy(const Objective& objective, const StalenessOptions& options) {
  for (const int stages : options.stages) {
    if (stages < 1 || stages > objective.dimension()) {
      return BadInput("--stages", fmt::format("{} is out of range", stages),
                      fmt::format("expected 1 to {}", objective.dimension()));
    }
    if (options.ticks < 8 * stages || options.ticks > 1000000) {
      return BadInput("--ticks", fmt::format("{} is out of range", options.ticks),
                      fmt::format("expected {} to 1000000", 8 * stages));
    }
  }
  if (options.seeds < 2 || options.seeds > 1000) {
    return BadInput("--seeds", fmt::format("{} is out of range", options.seeds),
                    "expected 2 to 1000");
  }
  if (!(options.noise >= 0) || !(options.step_size >= 0) || !std::isfinite(options.step_size)) {
    return BadInput("--step-size, --noise", "negative or not finite", "expected numbers from 0");
  }
  return Ok();
}

}  // namespace

double StaleCount(int stages, Accounting accounting) {
  const auto most = static_cast<double>(SteadyDelays({.stages = stages}).most);
  const double blocks = stages;
  switch (accounting) {
    case Accounting::kByDelay:
      return most * most;
    case Accounting::kConstant:
      return most * most / blocks + most * (1 - 1 / blocks);
    case Accounting::kUniform:
      return most * (2 * most + 1) / (6 * blocks) + most * (1 - 1 / blocks) / 2;
  }
  return 0;
}

int64_t PipeDreamCount(int stages) { return SteadyDelays({.stages = stages}).squares; }

double CountedReads(int stages, Accounting accounting, int64_t updates, uint64_t seed) {
  HEDDLE_CHECK(accounting != Accounting::kByDelay && stages >= 1 && updates >= 1);
  const int64_t most = SteadyDelays({.stages = stages}).most;
  const auto blocks = static_cast<size_t>(stages);
  const RandomStream choice(seed, "lab.count.block"), delays(seed, "lab.count.delay");
  // Row k: how often each block was updated before update k.
  std::vector<int64_t> before(static_cast<size_t>(most + updates + 1) * blocks);
  const auto row = [&](int64_t k) { return before.data() + static_cast<size_t>(k) * blocks; };
  double sum = 0;
  for (int64_t k = 0; k < most + updates; ++k) {
    for (size_t j = 0; j < blocks && k >= most; ++j) {
      const uint64_t word = static_cast<uint64_t>(k) * blocks + j;
      const int64_t delay =
          accounting == Accounting::kConstant
              ? most
              : static_cast<int64_t>(delays.Below(word, static_cast<uint64_t>(most) + 1));
      const auto moved = static_cast<double>(row(k)[j] - row(k - delay)[j]);
      sum += moved * moved;
    }
    std::copy(row(k), row(k) + blocks, row(k + 1));
    ++row(k + 1)[choice.Below(static_cast<uint64_t>(k), blocks)];
  }
  return sum / static_cast<double>(updates);
}

Bound BoundAt(const BoundInputs& inputs, double step_size, Accounting accounting) {
  const double slope = inputs.smoothness * inputs.gradient;  // LG
  Bound bound;
  bound.step_size = step_size;
  bound.descent = 2 * inputs.stages * inputs.gap / (step_size * inputs.steps);
  bound.noise = step_size * inputs.stages * slope * inputs.gradient;
  bound.stale = step_size * step_size * slope * slope * StaleCount(inputs.stages, accounting);
  return bound;
}

double TunedStep(const BoundInputs& inputs) {
  const double squares = inputs.gradient * inputs.gradient;
  return std::min(1 / inputs.smoothness,
                  std::sqrt(2 * inputs.gap / (inputs.smoothness * squares * inputs.steps)));
}

double TunedStepWithStale(const BoundInputs& inputs, Accounting accounting) {
  const double count = StaleCount(inputs.stages, accounting);
  if (count == 0) return TunedStep(inputs);
  const double slope = inputs.smoothness * inputs.gradient;
  return std::min(TunedStep(inputs),
                  std::cbrt(inputs.stages * inputs.gap / (slope * slope * count * inputs.steps)));
}

Result<StalenessStudy> MeasureStaleness(const Objective& objective,
                                        const StalenessOptions& options) {
  HEDDLE_RETURN_IF_ERROR(CheckStudy(objective, options));
  const int most = *std::max_element(options.stages.begin(), options.stages.end());
  StalenessStudy study;
  study.step_size =
      options.step_size > 0 ? options.step_size : HalfOfStable(objective.smoothness(), most);
  TrialOptions trial_options;
  trial_options.ticks = options.ticks;
  trial_options.points = 1;
  std::vector<Schedule> schedules;
  int64_t numbers = 0;
  for (const int stages : options.stages) {
    schedules.push_back(MakeSchedule({.stages = stages}, options.ticks));
    numbers = std::max(numbers, NoiseNeeded(schedules.back().clock, options.ticks, objective));
  }
  const auto seeds = static_cast<size_t>(options.seeds);
  Measurements of[2] = {Measurements(schedules.size(), std::vector<Measured>(seeds)),
                        Measurements(schedules.size(), std::vector<Measured>(seeds))};
  ForEachOnThreads(seeds, options.threads, [&](size_t seed) {
    const Noise noise = options.noise > 0 ? Noise(seed, numbers) : Noise();
    for (size_t k = 0; k < schedules.size(); ++k) {
      const Trial trial{objective,     schedules[k],    trial_options, noise,
                        options.noise, study.step_size, seed};
      for (size_t randomized : {0, 1}) of[randomized][k][seed] = Measure(trial, randomized == 1);
    }
  });
  for (const Measurements& measured : of) {
    for (size_t k = 0; k < measured.size(); ++k) {
      if (std::none_of(measured[k].begin(), measured[k].end(),
                       [](const Measured& one) { return one.diverged; })) {
        continue;
      }
      return BadInput(
          "--step-size",
          fmt::format("{} diverges on {} stages", ExactNumber(study.step_size), options.stages[k]),
          "choose a smaller one, or leave it out");
    }
  }
  study.pipedream = Fit(options, study.step_size, of[0]);
  study.randomized = Fit(options, study.step_size, of[1]);
  return study;
}

}  // namespace heddle
