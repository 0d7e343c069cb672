#include "lab/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {

int64_t NoiseNeeded(const PipelineClock& clock, int64_t ticks, int64_t dimension) {
  const int64_t microbatches = ticks / (clock.forward + clock.backward) + 1;
  const int64_t widest = (dimension + clock.stages - 1) / clock.stages;  // at least d / S
  return microbatches * clock.stages * widest;
}

int64_t PointTick(const TrialOptions& options, int point) {
  return options.ticks * (point + 1) / options.points;
}

LossRecorder::LossRecorder(const Trial& trial) : trial_(trial) {
  constexpr double kDiverged = 1e6;  // times the first loss
  const double first = trial.objective.Loss(trial.objective.Start(trial.seed).data());
  limit_ = kDiverged * std::max(first, 1.0);
}

void LossRecorder::Take(const std::vector<double>& x) {
  const double loss = trial_.objective.Loss(x.data());
  curve_.diverged = !(loss < limit_);
  curve_.losses.push_back(curve_.diverged ? std::numeric_limits<double>::infinity() : loss);
}

bool LossRecorder::Reach(int64_t tick, const std::vector<double>& x) {
  const int points = trial_.options.points;
  while (!curve_.diverged && static_cast<int>(curve_.losses.size()) < points &&
         PointTick(trial_.options, static_cast<int>(curve_.losses.size())) < tick) {
    Take(x);
  }
  return !curve_.diverged && tick <= trial_.options.ticks;
}

Curve LossRecorder::Finish(const std::vector<double>& x) {
  const auto points = static_cast<size_t>(trial_.options.points);
  while (!curve_.diverged && curve_.losses.size() < points) Take(x);
  curve_.losses.resize(points, std::numeric_limits<double>::infinity());
  return std::move(curve_);
}

void AddNoise(const Trial& trial, int64_t index, int64_t size, double* gradient) {
  if (trial.sigma == 0) return;
  HEDDLE_CHECK(index + size <= trial.noise.size());
  const float* numbers = trial.noise.At(index);
  for (int64_t k = 0; k < size; ++k) gradient[k] += trial.sigma * static_cast<double>(numbers[k]);
}

}  // namespace heddle
