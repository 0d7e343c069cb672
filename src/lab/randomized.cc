#include "lab/randomized.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/philox.h"

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
        chance_(trial.seed, "lab.rpd"),
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
    const int chosen =
        replay ? event.stage : static_cast<int>(Below(Word(k, 0), static_cast<uint64_t>(stages_)));
    const Block& block = blocks_[static_cast<size_t>(chosen)];
    const bool near = objective_.neighbours_only() && staleness_ == nullptr;
    const int first = near ? std::max(0, chosen - 1) : 0;
    const int last = near ? std::min(stages_ - 1, chosen + 1) : stages_ - 1;
    pass_.draw = {trial_.seed, replay ? event.microbatch : k};
    objective_.Begin(pass_);
    for (int j = first; j <= last; ++j) {
      const int64_t age = replay ? k - ReadAt(event.microbatch, j) : Delay(k, chosen, j);
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

  // Word number `word` of step k: the first says which block, the others how old those read are,
  // beginning with the block before the chosen one, so that four words do where only neighbours
  // are read.
  uint64_t Word(int64_t k, int word) {
    const int64_t counter = k * ((stages_ + 4) / 4) + word / 4;
    if (counter != counter_) {
      counter_ = counter;
      words_ = chance_.Words(static_cast<uint64_t>(counter));
    }
    return words_[static_cast<size_t>(word % 4)];
  }

  static uint64_t Below(uint64_t word, uint64_t bound) { return (word * bound) >> 32; }

  int64_t Delay(int64_t k, int chosen, int block) {
    const int64_t most = std::min(depth_, k);
    if (mode_ == DelayMode::kZero || most == 0) return 0;
    if (mode_ == DelayMode::kMaximal) return most;
    const int word = 1 + (block - chosen + 1 + stages_) % stages_;
    return static_cast<int64_t>(Below(Word(k, word), static_cast<uint64_t>(most) + 1));
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
  RandomStream chance_;
  std::vector<int64_t> reads_;
  int64_t counter_ = -1;
  std::array<uint32_t, 4> words_{};
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
  return Randomized(trial, mode, staleness).Run();
}

}  // namespace heddle
