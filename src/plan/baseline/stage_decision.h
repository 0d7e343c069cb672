// What the planners of earlier systems decide, and a time that no Plan of it beats.
//
//   StageDecision decision{{{{{0, 5}, {0}}, {{6, 11}, {1, 2}}}}, /*microbatches=*/8};
//   DecisionBound(table).Of(decision);      // seconds: simulate it only if the best takes longer
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/gradient_sums.h"
#include "plan/pipeline/layer_table.h"
#include "program/plan/plan.h"

namespace heddle {

// Layers and devices of a stage; each device computes an equal share of every microbatch.
struct StageChoice {
  LayerRun layers;
  std::vector<int> devices;  // indices into the cluster's

  auto operator<=>(const StageChoice&) const = default;
};

// Pipelines side by side, microbatches dealt to them in turn. Backward as early as can be: stage s
// of S starts with `depth` (S − 1 − s) forwards, then one forward and one backward in turn. Depth 1
// is 1F1B; with 2 transfers are hidden too, at twice the memory (DAPPLE's policies A and B).
struct StageDecision {
  std::vector<std::vector<StageChoice>> pipelines;
  int64_t microbatches = 1;  // of all pipelines together
  int depth = 1;

  auto operator<=>(const StageDecision&) const = default;
};

// Who sums which gradients.
GradientBytes GradientGroups(const Planning& planning, const StageDecision& decision);

// With w microbatches in flight, a stage begins forward k + w after backward k, which waits for the
// round trip from here to the end and back:
//
//   stages before    stage s, N microbatches                                    stages before
//   ── way there ──▶ max(N · own time of the slowest member, ⌈N / w⌉ · round trip) ── way back ──▶
//
// On the way every microbatch is taken to be as small as the smallest, every stage as fast as its
// fastest member, and every message to have the wires to itself.
class DecisionBound {
 public:
  // The table must outlive it.
  explicit DecisionBound(const LayerTable& table) : table_(table) {}
  double Of(const StageDecision& decision) const;
  // Slower, and closer: every wire carries all messages and sums that go over it, and sums begin
  // after a member has begun with its last backward.
  double WithWires(const StageDecision& decision, GradientSums& sums) const;

 private:
  // How many microbatches of a pipeline have so many samples; two sizes at most.
  using Sizes = std::map<int64_t, int64_t>;
  const Sizes& SizesOf(const StageDecision& decision, size_t pipeline) const;
  // Of a pipeline, as far as others are not concerned.
  struct Alone {
    double seconds = 0;
    std::vector<double> last_backward;  // by stage: when it begins, at the soonest
  };
  Alone OfPipeline(const StageDecision& decision, size_t pipeline) const;
  // Of `bytes` a sample from one stage to a neighbour, at least.
  double MessageSeconds(const StageChoice& from, const StageChoice& to, int64_t rows,
                        double bytes) const;
  void AddMessages(const StageDecision& decision, size_t pipeline,
                   std::vector<double>& wires) const;

  const LayerTable& table_;
  mutable std::map<std::pair<int64_t, size_t>, std::vector<Sizes>> sizes_;  // those asked for
};

}  // namespace heddle
