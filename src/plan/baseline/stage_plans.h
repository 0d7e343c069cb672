// What the planners of earlier systems share: heddle's own figures as their input, their decisions
// as Plans.
#pragma once

#include <cstdint>
#include <set>
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

// Sets the algorithm that sums a bucket soonest, of those that every group of replicas can use.
void ChooseAllReduce(const Planning& planning, Plan& plan);

// Gives plans to Best, each once; with recomputation where they do not fit without.
class Attempts {
 public:
  explicit Attempts(const Planning& planning) : best_(planning) {}

  Status Try(Plan plan);
  Best& best() { return best_; }
  Result<Plan> Take() && { return std::move(best_).Take(); }

 private:
  Best best_;
  std::set<std::string> tried_;
};

}  // namespace heddle
