#include "lab/local_sgd.h"

#include <algorithm>

namespace heddle {
namespace {

class Replicas {
 public:
  explicit Replicas(const Trial& trial)
      : trial_(trial),
        // Without noise or samples all replicas are equal.
        count_(trial.sigma == 0 && !trial.objective.sampled() ? 1 : trial.stages()),
        dimension_(trial.objective.dimension()),
        replicas_(static_cast<size_t>(count_)),
        gradient_(static_cast<size_t>(dimension_)),
        pass_(trial.objective.MakePass()) {}

  // H steps of every replica from x, then their average.
  const std::vector<double>& Round(int64_t round, const std::vector<double>& x) {
    const int64_t steps = trial_.options.every;
    for (int64_t r = 0; r < count_; ++r) {
      std::vector<double>& replica = replicas_[static_cast<size_t>(r)];
      replica = x;
      for (int64_t h = 0; h < steps; ++h) {
        Step(replica, (round * steps + h) * trial_.stages() + r);
      }
    }
    Average();
    return replicas_[0];
  }

 private:
  void Step(std::vector<double>& replica, int64_t microbatch) {
    pass_.draw = {trial_.seed, microbatch};
    trial_.objective.Gradient(replica.data(), pass_, gradient_.data());
    AddNoise(trial_, microbatch * dimension_, dimension_, gradient_.data());
    trial_.objective.Descend({0, dimension_}, gradient_.data(), trial_.step_size, replica.data());
  }

  // Into the first, in order of the replicas.
  void Average() {
    if (count_ == 1) return;
    std::vector<double>& sum = replicas_[0];
    for (size_t r = 1; r < replicas_.size(); ++r) {
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += replicas_[r][k];
    }
    for (double& element : sum) element /= static_cast<double>(count_);
  }

  const Trial& trial_;
  int64_t count_;
  int64_t dimension_;
  std::vector<std::vector<double>> replicas_;
  std::vector<double> gradient_;
  Pass pass_;
};

}  // namespace

int64_t LocalRoundTicks(const Trial& trial, LocalKind kind) {
  const PipelineClock& clock = trial.schedule.clock;
  const int64_t microbatches = trial.options.every * clock.stages;
  const int64_t least = microbatches * (clock.forward + clock.backward);
  const bool plain = kind == LocalKind::kPlain || least > trial.options.ticks;
  const int64_t work = plain ? least : DrainedTicks(clock, microbatches);
  return work + trial.options.average_ticks;
}

Curve RunLocal(const Trial& trial, LocalKind kind) {
  const int64_t length = LocalRoundTicks(trial, kind);
  const double momentum = trial.options.outer_momentum, step = trial.options.outer_step;
  std::vector<double> x = trial.objective.Start(trial.seed);
  std::vector<double> velocity(x.size());
  Replicas replicas(trial);
  LossRecorder recorder(trial);
  for (int64_t round = 0; recorder.Reach((round + 1) * length, x); ++round) {
    const std::vector<double>& average = replicas.Round(round, x);
    if (kind != LocalKind::kOuter) {
      x = average;
      continue;
    }
    for (size_t k = 0; k < x.size(); ++k) {
      const double change = x[k] - average[k];
      velocity[k] = momentum * velocity[k] + change;
      x[k] -= step * (change + momentum * velocity[k]);
    }
  }
  return recorder.Finish(x);
}

}  // namespace heddle
