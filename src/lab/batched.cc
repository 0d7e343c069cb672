#include "lab/batched.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

// gradient += σ · mean over the batch of the noise of its microbatches, for the block's elements.
void AddMeanNoise(const Trial& trial, int64_t batch, const Block& block, double* gradient) {
  if (trial.sigma == 0) return;
  const int64_t count = trial.batch();
  std::vector<double> sum(static_cast<size_t>(block.size()));
  for (int64_t m = batch * count; m < (batch + 1) * count; ++m) {
    AddNoise(trial, m * trial.objective.dimension() + block.begin, block.size(), sum.data());
  }
  for (int64_t k = 0; k < block.size(); ++k) {
    gradient[k] += sum[static_cast<size_t>(k)] / static_cast<double>(count);
  }
}

class TwoVersions {
 public:
  explicit TwoVersions(const Trial& trial)
      : trial_(trial),
        objective_(trial.objective),
        stages_(trial.stages()),
        blocks_(SplitBlocks(objective_.dimension(), stages_)),
        x_(objective_.Start(trial.seed)),
        previous_(x_),
        gradient_(x_.size()),
        version_(static_cast<size_t>(stages_)),
        passes_(2, objective_.MakePass()) {
    HEDDLE_CHECK(trial.batch() >= stages_);
  }

  Curve Run() {
    LossRecorder recorder(trial_);
    const int64_t count = trial_.batch();
    for (const Event& event : trial_.schedule.events) {
      const int64_t batch = event.microbatch / count;
      if (event.forward) {
        if (event.microbatch % count == 0) Forward(event.stage, batch);
        continue;
      }
      if (event.microbatch % count != count - 1) continue;
      if (!recorder.Reach(event.tick + 1, x_)) break;
      Update(event.stage, batch);
    }
    return recorder.Finish(x_);
  }

 private:
  Pass& PassOf(int64_t batch) { return passes_[static_cast<size_t>(batch % 2)]; }

  // The batch's first forward on the stage; the others read the same.
  void Forward(int stage, int64_t batch) {
    const Block& block = blocks_[static_cast<size_t>(stage)];
    const int64_t current = version_[static_cast<size_t>(stage)];
    const int64_t wanted = std::max<int64_t>(0, batch - 1);
    HEDDLE_CHECK(wanted == current || wanted == current - 1);
    const std::vector<double>& values = wanted == current ? x_ : previous_;
    if (stage == 0) objective_.Begin(PassOf(batch));
    objective_.Forward(block, values.data() + block.begin, PassOf(batch));
    if (stage + 1 == stages_) objective_.Turn(PassOf(batch));
  }

  void Update(int stage, int64_t batch) {
    const Block& block = blocks_[static_cast<size_t>(stage)];
    objective_.Backward(block, PassOf(batch), gradient_.data());
    AddMeanNoise(trial_, batch, block, gradient_.data());
    double* x = x_.data() + block.begin;
    std::copy(x, x + block.size(), previous_.begin() + block.begin);
    for (int64_t k = 0; k < block.size(); ++k) {
      x[k] -= trial_.step_size * gradient_[static_cast<size_t>(k)];
    }
    ++version_[static_cast<size_t>(stage)];
  }

  const Trial& trial_;
  const Objective& objective_;
  int stages_;
  std::vector<Block> blocks_;
  std::vector<double> x_, previous_, gradient_;
  std::vector<int64_t> version_;  // by stage: its number of updates
  std::vector<Pass> passes_;
};

}  // namespace

Curve RunGpipe(const Trial& trial) {
  const int64_t round = FlushTicks(trial.schedule.clock, trial.batch());
  std::vector<double> x = trial.objective.Start(trial.seed);
  std::vector<double> gradient(x.size());
  Pass pass = trial.objective.MakePass();
  LossRecorder recorder(trial);
  for (int64_t batch = 0; recorder.Reach((batch + 1) * round, x); ++batch) {
    trial.objective.Gradient(x.data(), pass, gradient.data());
    AddMeanNoise(trial, batch, {0, trial.objective.dimension()}, gradient.data());
    for (size_t k = 0; k < x.size(); ++k) x[k] -= trial.step_size * gradient[k];
  }
  return recorder.Finish(x);
}

Curve RunTwoVersions(const Trial& trial) { return TwoVersions(trial).Run(); }

}  // namespace heddle
