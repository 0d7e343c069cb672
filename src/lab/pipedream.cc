#include "lab/pipedream.h"

#include <algorithm>

namespace heddle {
namespace {

class PipeDream {
 public:
  PipeDream(const Trial& trial, const PipeDreamRule& rule)
      : trial_(trial),
        rule_(rule),
        objective_(trial.objective),
        stages_(trial.stages()),
        blocks_(objective_.Blocks(stages_)),
        x_(objective_.Start(trial.seed)),
        gradient_(x_.size()),
        passes_(static_cast<size_t>(stages_), objective_.MakePass()) {
    staleness_ = rule.staleness;
    if (staleness_ == nullptr && trial.options.staleness) staleness_ = &own_staleness_;
    if (staleness_ == nullptr && !rule.momentum) near_ = objective_.near();
    if (rule.momentum) velocity_.assign(x_.size(), 0.0);
    if (rule.look_ahead) ahead_.assign(x_.size(), 0.0);
    if (rule.versions == Versions::kVertical) versions_.assign(static_cast<size_t>(stages_), x_);
  }

  Curve Run() {
    LossRecorder recorder(trial_);
    for (const Event& event : trial_.schedule.events) {
      if (event.forward) {
        Forward(event.stage, event.microbatch);
        continue;
      }
      if (!recorder.Reach(event.tick + 1, x_)) break;
      Backward(event.stage, event.microbatch);
    }
    return recorder.Finish(x_, staleness_);
  }

 private:
  const Block& At(int stage) const { return blocks_[static_cast<size_t>(stage)]; }
  // At most S microbatches are between F(0, m) and B(0, m).
  Pass& PassOf(int64_t microbatch) { return passes_[static_cast<size_t>(microbatch % stages_)]; }
  // All blocks after v updates of their own, for the last S values of v.
  std::vector<double>& VersionOf(int64_t v) { return versions_[static_cast<size_t>(v % stages_)]; }

  void Forward(int stage, int64_t microbatch) {
    Pass& pass = PassOf(microbatch);
    if (stage == 0) {
      pass.draw = {trial_.seed, microbatch};
      objective_.Begin(pass);
    }
    objective_.Forward(At(stage), Read(stage, microbatch), pass);
    if (stage + 1 == stages_) objective_.Turn(pass);
  }

  // The values of its block that a forward sees.
  const double* Read(int stage, int64_t microbatch) {
    const int64_t begin = At(stage).begin;
    if (rule_.versions == Versions::kVertical) {
      // Block 0 has seen the updates of microbatches 0 … m - S when F(0, m) runs.
      return VersionOf(std::max<int64_t>(0, microbatch - stages_ + 1)).data() + begin;
    }
    if (!rule_.look_ahead) return x_.data() + begin;
    const double reach = trial_.step_size * static_cast<double>(stages_ - 1 - stage);
    const size_t end = static_cast<size_t>(At(stage).end);
    for (auto k = static_cast<size_t>(begin); k < end; ++k) {
      ahead_[k] = x_[k] - reach * velocity_[k];
    }
    return ahead_.data() + begin;
  }

  void Backward(int stage, int64_t microbatch) {
    const Block& block = At(stage);
    Pass& pass = PassOf(microbatch);
    if (rule_.versions == Versions::kNone) {
      objective_.Reread(block, x_.data() + block.begin, pass);
    }
    const int64_t numbers = microbatch * objective_.dimension() + block.begin;
    if (near_ != nullptr) {
      NearStep step = NearStepAt(trial_, block, pass.point.data(), numbers);
      step.step_size = StepOf(stage);
      double* x = x_.data() + block.begin;
      near_->Take(step, x, x);
    } else {
      objective_.Backward(block, pass, gradient_.data());
      AddNoise(trial_, numbers, block.size(), gradient_.data());
      if (staleness_ != nullptr) staleness_->Add(x_, pass.point, gradient_, block.size());
      Update(stage);
    }
    if (rule_.versions == Versions::kVertical) {
      std::copy(x_.begin() + block.begin, x_.begin() + block.end,
                VersionOf(microbatch + 1).begin() + block.begin);
    }
  }

  double StepOf(int stage) const {
    return rule_.step_by_stage ? trial_.step_size / static_cast<double>(stages_ - stage)
                               : trial_.step_size;
  }

  void Update(int stage) {
    const Block& block = At(stage);
    double* x = x_.data() + block.begin;
    const double step = StepOf(stage);
    if (!rule_.momentum) {
      return objective_.Descend(block, gradient_.data(), step, x);
    }
    const double kept = trial_.options.momentum;
    double* velocity = velocity_.data() + block.begin;
    for (int64_t k = 0; k < block.size(); ++k) {
      velocity[k] = kept * velocity[k] + (1 - kept) * gradient_[static_cast<size_t>(k)];
      x[k] -= step * velocity[k];
    }
  }

  const Trial& trial_;
  const PipeDreamRule& rule_;
  const Objective& objective_;
  int stages_;
  std::vector<Block> blocks_;
  std::vector<double> x_, gradient_, velocity_, ahead_;
  std::vector<std::vector<double>> versions_;
  std::vector<Pass> passes_;
  const NearGradient* near_ = nullptr;  // a step in one go, where nothing else is asked for
  Staleness own_staleness_;
  Staleness* staleness_ = nullptr;  // null: nobody asks
};

}  // namespace

Curve RunPipeDream(const Trial& trial, const PipeDreamRule& rule) {
  return PipeDream(trial, rule).Run();
}

Curve RunWithoutDelay(const Trial& trial) {
  const Objective& objective = trial.objective;
  const Block whole{0, objective.dimension()};
  std::vector<double> x = objective.Start(trial.seed), gradient(x.size());
  Pass pass = objective.MakePass();
  LossRecorder recorder(trial);
  for (const Event& event : trial.schedule.events) {
    if (event.forward || event.stage > 0) continue;
    if (!recorder.Reach(event.tick + 1, x)) break;
    pass.draw = {trial.seed, event.microbatch};
    objective.Gradient(x.data(), pass, gradient.data());
    AddNoise(trial, event.microbatch * whole.size(), whole.size(), gradient.data());
    objective.Descend(whole, gradient.data(), trial.step_size, x.data());
  }
  return recorder.Finish(x);
}

}  // namespace heddle
