#include "lab/randomized.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

// How far back a step may read.
int64_t LargestDelay(const Schedule& schedule, DelayMode mode) {
  return mode == DelayMode::kReplay
             ? CountDelays(schedule, 0, std::numeric_limits<int64_t>::max()).most
             : SteadyDelays(schedule.clock).most;
}

class Randomized {
 public:
  Randomized(const Trial& trial, DelayMode mode, Staleness* staleness)
      : trial_(trial),
        mode_(mode),
        staleness_(staleness == nullptr && trial.options.staleness ? &own_staleness_ : staleness),
        objective_(trial.objective),
        stages_(trial.stages()),
        blocks_(objective_.Blocks(stages_)),
        widest_(WidestBlock(blocks_)),
        depth_(LargestDelay(trial.schedule, mode)),
        x_(objective_.Start(trial.seed)),
        gradient_(static_cast<size_t>(widest_)),
        history_(x_, blocks_, depth_),
        pass_(objective_.MakePass()),
        chance_(trial.seed, stages_, mode, depth_),
        reads_(static_cast<size_t>(stages_) * static_cast<size_t>(stages_)) {}

  Curve Run() {
    LossRecorder recorder(trial_);
    for (const Event& event : trial_.schedule.events) {
      if (event.forward) {
        if (mode_ == DelayMode::kReplay) ReadAt(event.microbatch, event.stage) = history_.updates();
        continue;
      }
      if (!recorder.Reach(event.tick + 1, x_)) break;
      Step(event);
    }
    return recorder.Finish(x_, staleness_);
  }

 private:
  // Replay: the number of updates when F(j, m) ran.
  int64_t& ReadAt(int64_t microbatch, int block) {
    return reads_[static_cast<size_t>((microbatch % stages_) * stages_ + block)];
  }

  void Step(const Event& event) {
    const int64_t k = history_.updates();
    const bool replay = mode_ == DelayMode::kReplay;
    const int chosen = replay ? event.stage : chance_.Chosen(k);
    const Block& block = blocks_[static_cast<size_t>(chosen)];
    pass_.draw = {trial_.seed, replay ? event.microbatch : k};
    objective_.Begin(pass_);
    for (int j = 0; j < stages_; ++j) {
      const int64_t age = replay ? k - ReadAt(event.microbatch, j) : chance_.Delay(k, chosen, j);
      objective_.Forward(blocks_[static_cast<size_t>(j)], history_.Read(j, age), pass_);
    }
    objective_.Turn(pass_);
    objective_.Backward(block, pass_, gradient_.data());
    const int64_t numbers =
        replay ? event.microbatch * objective_.dimension() + block.begin : k * widest_;
    AddNoise(trial_, numbers, block.size(), gradient_.data());
    if (staleness_ != nullptr) staleness_->Add(x_, pass_.point, gradient_, block.size());
    double* x = x_.data() + block.begin;
    objective_.Descend(block, gradient_.data(), trial_.step_size, x);
    history_.Push(chosen, x);
  }

  const Trial& trial_;
  DelayMode mode_;
  Staleness own_staleness_;
  Staleness* staleness_;  // null: nobody asks
  const Objective& objective_;
  int stages_;
  std::vector<Block> blocks_;
  int64_t widest_;
  int64_t depth_;
  std::vector<double> x_, gradient_;
  BlockHistory history_;
  Pass pass_;
  StaleChance chance_;
  std::vector<int64_t> reads_;
};

// Where a gradient needs the neighbours of its block only: versions of each block lie in a ring,
// and a step goes from one to the next.
class NearRandomized {
 public:
  NearRandomized(const Trial& trial, const NearDraws& draws)
      : trial_(trial),
        draws_(draws),
        near_(*trial.objective.near()),
        blocks_(trial.objective.Blocks(trial.stages())),
        widest_(WidestBlock(blocks_)),
        slots_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(draws.versions) + 1))),
        ring_(blocks_.size() * static_cast<size_t>(slots_ * widest_)),
        newest_(blocks_.size()),
        x_(trial.objective.Start(trial.seed)) {
    for (size_t s = 0; s < blocks_.size(); ++s) {
      std::copy_n(x_.begin() + blocks_[s].begin, blocks_[s].size(), At(static_cast<int>(s), 0));
    }
  }

  Curve Run() {
    LossRecorder recorder(trial_);
    for (size_t k = 0; k < draws_.draws.size(); ++k) {
      const NearDraw& draw = draws_.draws[k];
      if (recorder.Due(draw.tick + 1)) Gather();
      if (!recorder.Reach(draw.tick + 1, x_)) break;
      Step(static_cast<int64_t>(k), draw);
    }
    Gather();
    return recorder.Finish(x_);
  }

 private:
  double* At(int block, int64_t version) {
    return ring_.data() + (block * slots_ + (version & (slots_ - 1))) * widest_;
  }

  void Step(int64_t k, const NearDraw& draw) {
    const auto s = static_cast<size_t>(draw.block);
    NearStep step;
    step.size = blocks_[s].size();
    step.read = At(draw.block, draw.version[1]);
    if (s > 0) {
      step.before = At(draw.block - 1, draw.version[0])[blocks_[s - 1].size() - 1];
    }
    if (s + 1 < blocks_.size()) step.after = At(draw.block + 1, draw.version[2])[0];
    step.step_size = trial_.step_size;
    step.sigma = trial_.sigma;
    step.noise = NoiseAt(trial_, k * widest_, step.size);
    const int64_t version = newest_[s]++;
    near_.Take(step, At(draw.block, version), At(draw.block, version + 1));
  }

  // The newest of every block, into x_.
  void Gather() {
    for (size_t s = 0; s < blocks_.size(); ++s) {
      std::copy_n(At(static_cast<int>(s), newest_[s]), blocks_[s].size(),
                  x_.begin() + blocks_[s].begin);
    }
  }

  const Trial& trial_;
  const NearDraws& draws_;
  const NearGradient& near_;
  std::vector<Block> blocks_;
  int64_t widest_;
  int64_t slots_;  // of a block; a power of two
  std::vector<double> ring_;
  std::vector<int64_t> newest_;  // version, by block
  std::vector<double> x_;
};

}  // namespace

BlockHistory::BlockHistory(const std::vector<double>& x, const std::vector<Block>& blocks,
                           int64_t depth)
    : blocks_(blocks),
      slots_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(depth) + 1))),
      width_(WidestBlock(blocks)),
      ring_(static_cast<size_t>(slots_ * width_)),
      ring_block_(static_cast<size_t>(slots_)),
      oldest_(x),
      changed_by_(static_cast<size_t>(slots_) * blocks.size(), -1) {}

void BlockHistory::Push(int block, const double* values) {
  const size_t slot = Slot(updates_);
  double* place = ring_.data() + slot * static_cast<size_t>(width_);
  if (updates_ >= slots_) {  // what the update `slots_` ago wrote leaves the ring
    const Block& left = blocks_[static_cast<size_t>(ring_block_[slot])];
    std::copy(place, place + left.size(), oldest_.begin() + left.begin);
  }
  std::copy(values, values + blocks_[static_cast<size_t>(block)].size(), place);
  ring_block_[slot] = block;
  const int32_t* before = ChangedBy(updates_);
  int32_t* after = changed_by_.data() + Slot(updates_ + 1) * blocks_.size();
  std::copy(before, before + blocks_.size(), after);
  after[block] = static_cast<int32_t>(updates_);
  ++updates_;
}

const double* BlockHistory::Read(int block, int64_t delay) const {
  HEDDLE_CHECK(delay >= 0 && delay < slots_ && delay <= updates_);
  const int64_t update = ChangedBy(updates_ - delay)[block];
  if (update < updates_ - slots_ || update < 0) {
    return oldest_.data() + blocks_[static_cast<size_t>(block)].begin;
  }
  return ring_.data() + Slot(update) * static_cast<size_t>(width_);
}

Curve RunRandomized(const Trial& trial, DelayMode mode, Staleness* staleness) {
  const bool watched = staleness != nullptr || trial.options.staleness;
  if (trial.objective.near() != nullptr && !watched && mode != DelayMode::kReplay) {
    if (trial.draws != nullptr && trial.draws->mode == mode) {
      return NearRandomized(trial, *trial.draws).Run();
    }
    return NearRandomized(trial, NearDraws(trial.schedule, mode, trial.seed)).Run();
  }
  return Randomized(trial, mode, staleness).Run();
}

}  // namespace heddle
