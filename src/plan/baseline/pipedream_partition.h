// PipeDream's optimizer (Narayanan et al., SOSP 2019) for a flat network: which layers form a stage
// and on how many devices each stage is replicated, so that the slowest stage or transfer is as
// fast as can be. Dynamic program over the states of cut_states.h:
//
//   A(j, m) = min { T(0, j, m),  min over k within j, r < m of
//                                max { A(k, m − r), T(k, j, r), C(k, r), C(j, r) } }
//   T(k, j, r) = (compute + 4 (r − 1) P / (bandwidth r)) / r      what state j has beyond state k
//   C(k, r)    = 2 · crossing bytes of k / (bandwidth r)          there and back
//
// Details that the paper leaves open, as the authors' optimizer has them (docs/baselines.md):
//   - transfers count (without them vgg16 on 8 devices takes 93.5 ms instead of the published
//     103.8); each is divided by the replicas of the stage that receives it, never by the sender's;
//   - that stage also pays for its own output, unless it is the last; the first stage pays for
//     nothing, since its output is the next stage's input;
//   - every device is used: A(j, m) is not the best of m or fewer (in the figures for vgg16 that
//     makes no difference);
//   - stages may be replicated (it is not a straight pipeline), and memory is no constraint.
#pragma once

#include <limits>
#include <vector>

#include "plan/baseline/cut_states.h"

namespace heddle {

struct PipeDreamStage {
  int begin = 0;  // states begin .. end - 1, as cut_states.h counts them
  int end = 0;
  int replicas = 1;

  auto operator<=>(const PipeDreamStage&) const = default;
};

struct PipeDreamPartition {
  double seconds = 0;  // of the slowest stage or transfer, per minibatch
  std::vector<PipeDreamStage> stages;
};

// With `unit` > 1 only whole groups of so many devices are given to a stage. A time that some
// partition is known to reach as `limit` changes nothing but how soon the best is found.
// REQUIRES: states.size() >= 1, devices >= 1, devices a multiple of unit, bandwidth > 0; some
// partition takes `limit` or less.
PipeDreamPartition PartitionPipeDream(const CutStates& states, int devices, double bandwidth,
                                      int unit = 1,
                                      double limit = std::numeric_limits<double>::infinity());

// The time of given stages under the same formula, for tests and explanations.
double PipeDreamSeconds(const CutStates& states, const std::vector<PipeDreamStage>& stages,
                        double bandwidth);

}  // namespace heddle
