#include "lab/local_sgd.h"

#include <algorithm>

namespace heddle {
namespace {

// How many microbatches of a round each block has seen some time after the round began.
class RoundClock {
 public:
  RoundClock(const Trial& trial, LocalKind kind) : stages_(trial.stages()) {
    const PipelineClock& clock = trial.schedule.clock;
    const int64_t microbatches = trial.options.every * clock.stages;
    step_ = clock.stages * (clock.forward + clock.backward);
    if (kind != LocalKind::kPlain) {
      // No more than can end within the trial.
      const int64_t most = trial.options.ticks / (clock.forward + clock.backward) + 1;
      ends_ = BackwardEnds(clock, std::min(microbatches, most));
    }
  }

  int64_t SeenBy(int stage, int64_t offset) const {
    if (ends_.empty()) return offset / step_ * stages_;  // all replicas step at once
    const std::vector<int64_t>& ends = ends_[static_cast<size_t>(stage)];
    return std::upper_bound(ends.begin(), ends.end(), offset) - ends.begin();
  }

 private:
  int stages_;
  int64_t step_ = 0;
  std::vector<std::vector<int64_t>> ends_;  // by stage and microbatch; none: whole models
};

// The running average at one time of a round, while it is added up.
struct View {
  std::vector<int64_t> seen;  // by block: microbatches of the round
  std::vector<double> sum;
};

class Replicas {
 public:
  Replicas(const Trial& trial, LocalKind kind)
      : trial_(trial),
        stages_(trial.stages()),
        // Without noise or samples all replicas go the same way.
        count_(trial.sigma == 0 && !trial.objective.sampled() ? 1 : stages_),
        dimension_(trial.objective.dimension()),
        blocks_(trial.objective.Blocks(stages_)),
        clock_(trial, kind),
        gradient_(static_cast<size_t>(dimension_)),
        pass_(trial.objective.MakePass()) {}

  // H steps of every replica from x; leaves the average at each of the times after the round began
  // in `views`, and unless the trial ends before, that at the end in `average`.
  void Round(int64_t round, const std::vector<double>& x, const std::vector<int64_t>& offsets,
             bool ends, std::vector<View>& views, std::vector<double>& average) {
    views.assign(offsets.size(), {});
    for (size_t v = 0; v < offsets.size(); ++v) {
      views[v].sum.assign(x.size(), 0.0);
      for (int s = 0; s < stages_; ++s) views[v].seen.push_back(clock_.SeenBy(s, offsets[v]));
    }
    average.assign(x.size(), 0.0);
    const int64_t steps = ends ? trial_.options.every : StepsSeen(views);
    for (int64_t r = 0; r < count_; ++r) {
      replica_ = x;
      for (int64_t h = 0;; ++h) {
        for (View& view : views) AddTo(view, r, h);
        if (h == steps) break;
        Step((round * trial_.options.every + h) * stages_ + r);
      }
      for (size_t k = 0; k < x.size(); ++k) average[k] += replica_[k];
    }
    for (double& element : average) element /= static_cast<double>(count_);
    for (View& view : views) {
      for (double& element : view.sum) element /= static_cast<double>(stages_);
    }
  }

 private:
  // Of microbatches r, r + S, …: how many are below `seen`.
  int64_t StepsOf(int64_t replica, int64_t seen) const {
    return (seen - replica + stages_ - 1) / stages_;
  }

  // How many replicas have had h steps then: those up to the remainder are one ahead.
  int64_t ReplicasAt(int64_t seen, int64_t h) const {
    const int64_t ahead = seen % stages_;
    return (h == seen / stages_ ? stages_ - ahead : 0) + (h == seen / stages_ + 1 ? ahead : 0);
  }

  int64_t StepsSeen(const std::vector<View>& views) const {
    int64_t steps = 0;
    for (const View& view : views) {
      for (const int64_t seen : view.seen) steps = std::max(steps, StepsOf(0, seen));
    }
    return steps;
  }

  // The blocks of the replica that have just had h steps at the view's time.
  void AddTo(View& view, int64_t replica, int64_t h) {
    for (size_t s = 0; s < blocks_.size(); ++s) {
      const int64_t times = count_ == 1 ? ReplicasAt(view.seen[s], h)
                                        : static_cast<int64_t>(StepsOf(replica, view.seen[s]) == h);
      if (times == 0) continue;
      for (auto k = static_cast<size_t>(blocks_[s].begin); k < static_cast<size_t>(blocks_[s].end);
           ++k) {
        view.sum[k] += static_cast<double>(times) * replica_[k];
      }
    }
  }

  void Step(int64_t microbatch) {
    const Block whole{0, dimension_};
    if (const NearGradient* near = trial_.objective.near()) {
      near->Take(NearStepAt(trial_, whole, replica_.data(), microbatch * dimension_),
                 replica_.data(), gradient_.data());
      replica_.swap(gradient_);
      return;
    }
    pass_.draw = {trial_.seed, microbatch};
    trial_.objective.Gradient(replica_.data(), pass_, gradient_.data());
    AddNoise(trial_, microbatch * dimension_, dimension_, gradient_.data());
    trial_.objective.Descend(whole, gradient_.data(), trial_.step_size, replica_.data());
  }

  const Trial& trial_;
  int stages_;
  int64_t count_;
  int64_t dimension_;
  std::vector<Block> blocks_;
  RoundClock clock_;
  std::vector<double> replica_, gradient_;
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

int64_t LocalRounds(const Trial& trial, LocalKind kind) {
  return trial.options.ticks / LocalRoundTicks(trial, kind);
}

Curve RunLocal(const Trial& trial, LocalKind kind) {
  const int64_t length = LocalRoundTicks(trial, kind);
  const double momentum = trial.options.outer_momentum, step = trial.options.outer_step;
  std::vector<double> x = trial.objective.Start(trial.seed);
  std::vector<double> velocity(x.size()), average;
  std::vector<View> views;
  Replicas replicas(trial, kind);
  LossRecorder recorder(trial);
  for (int64_t round = 0;; ++round) {
    const int64_t begin = round * length, end = begin + length;
    if (!recorder.Reach(begin + 1, x)) break;
    std::vector<int64_t> offsets = recorder.PointsBefore(end);
    for (int64_t& offset : offsets) offset -= begin;
    const bool ends = end <= trial.options.ticks;
    if (!ends && offsets.empty()) break;
    replicas.Round(round, x, offsets, ends, views, average);
    for (const View& view : views) recorder.Take(view.sum);
    if (!recorder.Reach(end, x)) {
      if (!views.empty()) x = views.back().sum;
      break;
    }
    if (kind != LocalKind::kOuter) {
      x.swap(average);
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
