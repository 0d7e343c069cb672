// Contention: what the messages and all-reduces of a pipeline take when they share wires.
//
// Every microbatch puts the messages of all cuts, both ways and of all pipelines side by side, on
// their wires; a period P is at least what the busiest wire needs for one of them. A message that
// needs `own` seconds of a wire finds it taken by others for a part u of the time, and takes
// own / (1 - u):
//
//   u = (load of the wire - own) / P          load = P: the message takes the whole period
#pragma once

#include <vector>

#include "plan/order/pipe_shape.h"
#include "plan/pipeline/partition.h"

namespace heddle {

class Contention {
 public:
  // `stage_of` by chunk; `slowest`: the most a stage takes for a microbatch.
  Contention(const StageCosts& costs, const std::vector<PartitionStage>& chunks,
             const std::vector<int>& stage_of, double slowest);

  // Of the busiest machine for one microbatch: stage or wire.
  double period() const { return period_; }
  // cuts()[k] is between the chunks k and k + 1; zero inside a stage.
  const std::vector<PipeShape::Cut>& cuts() const { return cuts_; }

 private:
  double period_;
  std::vector<PipeShape::Cut> cuts_;
};

// All-reduces of a pipeline's stages on shared wires, served in the order in which they can start.
struct StageSum {
  int chunk = 0;
  double start = 0;  // when its first gradients are complete
  double end = 0;    // before which it cannot end, even if the network is idle
};
// When the last of them ends.
double LastSum(const StageCosts& costs, const std::vector<PartitionStage>& chunks,
               std::vector<StageSum> sums);

}  // namespace heddle
