// Trial: one method on one objective with one step size and one seed; and the losses it passes.
//
// A method replays the schedule on a vector x. Before each change it tells the recorder the tick
// that the change ends with; the recorder takes the loss at the times in between. Times are ticks
// that have passed: what a tick changes is seen at the time after it.
//
//   LossRecorder recorder(trial);
//   while (recorder.Reach(end_of_round, x)) { … change x … }
//   return recorder.Finish(x);
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lab/block_draws.h"
#include "lab/noise.h"
#include "lab/objective.h"
#include "lab/schedule.h"

namespace heddle {

// What the methods share.
struct TrialOptions {
  int64_t ticks = 10000;        // the end
  int points = 50;              // losses taken, at equal distances, the last at the end
  int64_t every = 5;            // local methods: steps between averages (H)
  int64_t microbatches = 0;     // of a batch (gpipe, 2bw); 0: as many as stages
  int64_t average_ticks = 0;    // what an average over the replicas costs
  double momentum = 0.9;        // of pd-momentum and pd-lookahead
  double outer_momentum = 0.9;  // of diloco
  double outer_step = 0.7;      // of diloco
  bool staleness = false;       // of pd and rpd: Curve::staleness
};

struct Trial {
  const Objective& objective;
  const Schedule& schedule;  // of at least `options.ticks`
  const TrialOptions& options;
  const Noise& noise;  // enough numbers for the schedule: NoiseNeeded
  double sigma = 0;    // of the gradient's noise, for each element
  double step_size = 0;
  uint64_t seed = 0;
  const NearDraws* draws = nullptr;  // of seed and schedule, made before; null: made as needed

  int stages() const { return schedule.clock.stages; }
  int64_t batch() const {
    return options.microbatches > 0 ? options.microbatches : schedule.clock.stages;
  }
};

// Numbers of the seed's sequence that any method uses in so many ticks.
int64_t NoiseNeeded(const PipelineClock& clock, int64_t ticks, const Objective& objective);

// How far what was read is from what is updated: sums over all updates.
struct Staleness {
  int64_t updates = 0;
  double distance = 0;  // ‖x - z‖² just before the update
  double gradient = 0;  // ‖∇_i f(z; ξ)‖², the block that is updated
  double largest = 0;   // of these gradients
  void Add(const std::vector<double>& x, const std::vector<double>& z,
           const std::vector<double>& block_gradient, int64_t block_size);
};

struct Curve {
  double first = 0;            // loss at the start
  std::vector<double> losses;  // by point; infinite from where it diverged
  bool diverged = false;
  std::optional<double> held_out;  // at the end, where the objective has such samples
  std::optional<double> staleness;  // the mean of ‖x - z‖² over the updates, if it was asked for
  double last() const { return losses.back(); }
};

// When loss number `point` is taken.
int64_t PointTick(const TrialOptions& options, int point);

// When a curve first comes down to `target`, on straight lines between its points; the first line
// begins with the loss at the start. Infinite if it does not.
double TicksToReach(const TrialOptions& options, const Curve& curve, double target);

class LossRecorder {
 public:
  explicit LossRecorder(const Trial& trial);
  // Records what x was at all times before `tick`, which the next change ends at. False: that is
  // after the end, or x diverged, and the trial is over.
  bool Reach(int64_t tick, const std::vector<double>& x) {
    while (next_ < tick) Take(x);
    return !curve_.diverged && tick <= trial_.options.ticks;
  }
  // When the next losses are to be taken, as far as before `tick`; for methods that know what x was
  // in between. Each is then given by Take, in order.
  std::vector<int64_t> PointsBefore(int64_t tick) const;
  bool Due(int64_t tick) const { return next_ < tick; }  // whether there are any
  void Take(const std::vector<double>& x);
  // `staleness` may be null.
  Curve Finish(const std::vector<double>& x, const Staleness* staleness = nullptr);

 private:
  void SetNext();

  const Trial& trial_;
  Curve curve_;
  double limit_ = 0;  // a loss above has diverged
  int64_t next_ = 0;  // when the next loss is due; after all of them: never
};

// The noise of `size` elements from `index` on; null if σ is 0.
const float* NoiseAt(const Trial& trial, int64_t index, int64_t size);

// A step of a near gradient (objective.h) of `block`, at a point of which all elements are given,
// with the noise from `index` on.
NearStep NearStepAt(const Trial& trial, const Block& block, const double* point, int64_t index);

// gradient += σ · noise[index …]
void AddNoise(const Trial& trial, int64_t index, int64_t size, double* gradient);

}  // namespace heddle
