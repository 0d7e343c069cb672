#include "lab/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {

int64_t NoiseNeeded(const PipelineClock& clock, int64_t ticks, const Objective& objective) {
  const int64_t microbatches = ticks / (clock.forward + clock.backward) + 1;
  // Randomized methods take a widest block, at least d / S, for each of S updates.
  return microbatches * clock.stages * WidestBlock(objective.Blocks(clock.stages));
}

int64_t PointTick(const TrialOptions& options, int point) {
  return options.ticks * (point + 1) / options.points;
}

double TicksToReach(const TrialOptions& options, const Curve& curve, double target) {
  double tick = 0, loss = curve.first;
  if (loss <= target) return 0;
  for (size_t point = 0; point < curve.losses.size(); ++point) {
    const auto next_tick = static_cast<double>(PointTick(options, static_cast<int>(point)));
    const double next = curve.losses[point];
    if (next <= target) return tick + (next_tick - tick) * (loss - target) / (loss - next);
    tick = next_tick;
    loss = next;
  }
  return std::numeric_limits<double>::infinity();
}

void Staleness::Add(const std::vector<double>& x, const std::vector<double>& z,
                    const std::vector<double>& block_gradient, int64_t block_size) {
  double apart = 0, norm = 0;
  for (size_t k = 0; k < x.size(); ++k) apart += (x[k] - z[k]) * (x[k] - z[k]);
  for (size_t k = 0; k < static_cast<size_t>(block_size); ++k) {
    norm += block_gradient[k] * block_gradient[k];
  }
  ++updates;
  distance += apart;
  gradient += norm;
  largest = std::max(largest, norm);
}

LossRecorder::LossRecorder(const Trial& trial) : trial_(trial) {
  constexpr double kDiverged = 1e6;  // times the first loss
  curve_.first = trial.objective.Loss(trial.objective.Start(trial.seed).data());
  limit_ = kDiverged * std::max(curve_.first, 1.0);
  SetNext();
}

void LossRecorder::SetNext() {
  const auto taken = static_cast<int>(curve_.losses.size());
  next_ = taken < trial_.options.points && !curve_.diverged ? PointTick(trial_.options, taken)
                                                            : std::numeric_limits<int64_t>::max();
}

void LossRecorder::Take(const std::vector<double>& x) {
  if (curve_.diverged) return;
  const double loss = trial_.objective.Loss(x.data());
  curve_.diverged = !(loss < limit_);
  curve_.losses.push_back(curve_.diverged ? std::numeric_limits<double>::infinity() : loss);
  SetNext();
}

std::vector<int64_t> LossRecorder::PointsBefore(int64_t tick) const {
  std::vector<int64_t> points;
  const int count = curve_.diverged ? 0 : trial_.options.points;
  for (auto point = static_cast<int>(curve_.losses.size()); point < count; ++point) {
    if (PointTick(trial_.options, point) >= tick) break;
    points.push_back(PointTick(trial_.options, point));
  }
  return points;
}

Curve LossRecorder::Finish(const std::vector<double>& x, const Staleness* staleness) {
  if (staleness != nullptr && staleness->updates > 0) {
    curve_.staleness = staleness->distance / static_cast<double>(staleness->updates);
  }
  const auto points = static_cast<size_t>(trial_.options.points);
  while (!curve_.diverged && curve_.losses.size() < points) Take(x);
  curve_.held_out = trial_.objective.HeldOutLoss(x.data());
  curve_.losses.resize(points, std::numeric_limits<double>::infinity());
  return std::move(curve_);
}

const float* NoiseAt(const Trial& trial, int64_t index, int64_t size) {
  if (trial.sigma == 0) return nullptr;
  HEDDLE_CHECK(index + size <= trial.noise.size());
  return trial.noise.At(index);
}

NearStep NearStepAt(const Trial& trial, const Block& block, const double* point, int64_t index) {
  NearStep step;
  step.size = block.size();
  step.read = point + block.begin;
  if (block.begin > 0) step.before = point[block.begin - 1];
  if (block.end < trial.objective.dimension()) step.after = point[block.end];
  step.step_size = trial.step_size;
  step.sigma = trial.sigma;
  step.noise = NoiseAt(trial, index, step.size);
  return step;
}

void AddNoise(const Trial& trial, int64_t index, int64_t size, double* gradient) {
  if (trial.sigma == 0) return;
  const float* numbers = NoiseAt(trial, index, size);
  for (int64_t k = 0; k < size; ++k) gradient[k] += trial.sigma * static_cast<double>(numbers[k]);
}

}  // namespace heddle
