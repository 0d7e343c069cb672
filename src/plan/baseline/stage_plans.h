// What the planners of earlier systems share: heddle's own figures as their input, their decisions
// as Plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/baseline/cut_states.h"
#include "plan/planning.h"

namespace heddle {

// States of the model's chain: state l holds layers 0..l. Seconds are of `rows` samples on the mean
// of all devices (these systems know one kind of device only) times `scale`, as are the bytes that
// cross; half of what crosses forward and backward together, since they count one direction twice.
CutStates ChainStates(const Planning& planning, int64_t rows, double scale, double parameter_scale);

// Powers of two up to four per device, within the batch, unless the user says.
std::vector<int64_t> MicrobatchCounts(const Planning& planning);

// Layers and devices of a stage; each device computes an equal share of every microbatch.
struct StageChoice {
  LayerRun layers;
  std::vector<int> devices;  // indices into the cluster's
};

// Backward as early as can be: stage s of S starts with `depth` (S − 1 − s) forwards, then one
// forward and one backward in turn. depth 1 is 1F1B; with 2 transfers are hidden too, at twice the
// memory (DAPPLE's policies A and B). `microbatches` are those of this pipeline.
PipelinePlan EarlyBackward(const Planning& planning, const std::vector<StageChoice>& stages,
                           const std::vector<int32_t>& microbatches, int depth);

// Collects plans with what their own planner thinks of them, then gives each once to Best, the most
// promising first: with the cheapest way to sum gradients that every group of replicas can use, and
// with recomputation where they do not fit without.
class Attempts {
 public:
  explicit Attempts(const Planning& planning) : planning_(planning), best_(planning) {}

  // `estimate` in seconds, in the planner's own model; `bound` is a time it cannot beat.
  void Add(Plan plan, double estimate, double bound = 0);
  Best& best() { return best_; }
  Result<Plan> Simulate() &&;

 private:
  struct Attempt {
    Plan plan;
    double estimate;
    double bound;
  };
  Status Try(Plan plan);

  const Planning& planning_;
  Best best_;
  std::vector<Attempt> attempts_;
};

}  // namespace heddle
