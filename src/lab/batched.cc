#include "lab/batched.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

// gradient += σ · mean over the batch of the noise of its microbatches, for the block's elements.
void AddMeanNoise(const Trial& trial, int64_t batch, int64_t count, const Block& block,
                  double* gradient) {
  if (trial.sigma == 0) return;
  std::vector<double> sum(static_cast<size_t>(block.size()));
  for (int64_t m = batch * count; m < (batch + 1) * count; ++m) {
    AddNoise(trial, m * trial.objective.dimension() + block.begin, block.size(), sum.data());
  }
  for (int64_t k = 0; k < block.size(); ++k) {
    gradient[k] += sum[static_cast<size_t>(k)] / static_cast<double>(count);
  }
}

// The mean over the batch of its microbatches' gradients at x; one of them does where they are the
// same.
void BatchGradient(const Trial& trial, const double* x, int64_t batch, int64_t count, Pass& pass,
                   std::vector<double>& gradient) {
  pass.draw = {trial.seed, batch * count};
  trial.objective.Gradient(x, pass, gradient.data());
  if (!trial.objective.sampled()) return;
  std::vector<double> other(gradient.size());
  for (int64_t m = batch * count + 1; m < (batch + 1) * count; ++m) {
    pass.draw = {trial.seed, m};
    trial.objective.Gradient(x, pass, other.data());
    for (size_t k = 0; k < gradient.size(); ++k) gradient[k] += other[k];
  }
  for (double& element : gradient) element /= static_cast<double>(count);
}

// The mean of several microbatches' noise is not that of one: a step in one go is without.
const NearGradient* NearOf(const Trial& trial) {
  return trial.sigma == 0 ? trial.objective.near() : nullptr;
}

class TwoVersions {
 public:
  explicit TwoVersions(const Trial& trial)
      : trial_(trial),
        objective_(trial.objective),
        stages_(trial.stages()),
        blocks_(objective_.Blocks(stages_)),
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
    if (stage == 0) {
      PassOf(batch).draw = {trial_.seed, batch * trial_.batch()};
      objective_.Begin(PassOf(batch));
    }
    objective_.Forward(block, values.data() + block.begin, PassOf(batch));
    if (stage + 1 == stages_) objective_.Turn(PassOf(batch));
  }

  void Update(int stage, int64_t batch) {
    const Block& block = blocks_[static_cast<size_t>(stage)];
    double* x = x_.data() + block.begin;
    std::copy(x, x + block.size(), previous_.begin() + block.begin);
    if (const NearGradient* near = NearOf(trial_)) {
      near->Take(NearStepAt(trial_, block, PassOf(batch).point.data(), 0), x, x);
    } else {
      BlockGradient(stage, batch);
      AddMeanNoise(trial_, batch, trial_.batch(), block, gradient_.data());
      objective_.Descend(block, gradient_.data(), trial_.step_size, x);
    }
    ++version_[static_cast<size_t>(stage)];
  }

  // Into gradient_, at the weights that the batch's forwards read.
  void BlockGradient(int stage, int64_t batch) {
    const Block& block = blocks_[static_cast<size_t>(stage)];
    if (!objective_.sampled()) {
      objective_.Backward(block, PassOf(batch), gradient_.data());
      return;
    }
    // The last stage comes first, and by then every block has been read.
    if (stage + 1 == stages_) {
      const std::vector<double> read = PassOf(batch).point;
      whole_.resize(read.size());
      BatchGradient(trial_, read.data(), batch, trial_.batch(), PassOf(batch), whole_);
    }
    std::copy(whole_.begin() + block.begin, whole_.begin() + block.end, gradient_.begin());
  }

  const Trial& trial_;
  const Objective& objective_;
  int stages_;
  std::vector<Block> blocks_;
  std::vector<double> whole_;  // the batch's gradient, if it is made in one piece
  std::vector<double> x_, previous_, gradient_;
  std::vector<int64_t> version_;  // by stage: its number of updates
  std::vector<Pass> passes_;
};

}  // namespace

Curve RunGpipe(const Trial& trial, int64_t count) {
  const int64_t round = FlushTicks(trial.schedule.clock, count);
  std::vector<double> x = trial.objective.Start(trial.seed);
  std::vector<double> gradient(x.size());
  Pass pass = trial.objective.MakePass();
  const NearGradient* near = NearOf(trial);
  const Block whole{0, trial.objective.dimension()};
  LossRecorder recorder(trial);
  for (int64_t batch = 0; recorder.Reach((batch + 1) * round, x); ++batch) {
    if (near != nullptr) {
      near->Take(NearStepAt(trial, whole, x.data(), 0), x.data(), gradient.data());
      x.swap(gradient);
      continue;
    }
    BatchGradient(trial, x.data(), batch, count, pass, gradient);
    AddMeanNoise(trial, batch, count, whole, gradient.data());
    trial.objective.Descend(whole, gradient.data(), trial.step_size, x.data());
  }
  return recorder.Finish(x);
}

Curve RunTwoVersions(const Trial& trial) { return TwoVersions(trial).Run(); }

}  // namespace heddle
