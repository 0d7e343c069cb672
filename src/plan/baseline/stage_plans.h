// What the planners of earlier systems share: heddle's own figures as their input, their decisions
// as Plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/baseline/cut_states.h"
#include "plan/pipeline/layer_table.h"
#include "plan/planning.h"

namespace heddle {

// States of the model's chain: state l holds layers 0..l. Seconds are of `rows` samples on the mean
// of all devices (these systems know one kind of device only) times `scale`, as are the bytes that
// cross; half of what crosses forward and backward together, since they count one direction twice.
CutStates ChainStates(const Planning& planning, int64_t rows, double scale, double parameter_scale);

// Layers and devices of a stage; each device computes an equal share of every microbatch.
struct StageChoice {
  LayerRun layers;
  std::vector<int> devices;  // indices into the cluster's

  auto operator<=>(const StageChoice&) const = default;
};

// What one of these planners decides: pipelines side by side, microbatches dealt to them in turn.
// Backward as early as can be: stage s of S starts with `depth` (S − 1 − s) forwards, then one
// forward and one backward in turn. Depth 1 is 1F1B; with 2 transfers are hidden too, at twice the
// memory (DAPPLE's policies A and B).
struct StageDecision {
  std::vector<std::vector<StageChoice>> pipelines;
  int64_t microbatches = 1;  // of all pipelines together
  int depth = 1;

  auto operator<=>(const StageDecision&) const = default;
};

// Collects decisions with what their own planner thinks of them, then gives each once to Best as a
// plan, the most promising first: with the cheapest way to sum gradients that every group of
// replicas can use, and with recomputation where they do not fit without. Where nothing fits yet,
// those that need least come first.
class Attempts {
 public:
  Attempts(const Planning& planning, std::string strategy)
      : planning_(planning), strategy_(std::move(strategy)), best_(planning) {}

  // `estimate` in seconds, in the planner's own model.
  void Add(StageDecision decision, const std::string& order, double estimate);
  Best& best() { return best_; }

  // Has the planner propose for every number of microbatches, and then for those near the best.
  using Proposer = std::function<void(int64_t microbatches)>;
  Result<Plan> Run(const Proposer& propose) &&;

 private:
  struct Attempt {
    StageDecision decision;
    std::string order;
    double estimate;
    double bound;  // a time it cannot beat
  };
  double BoundOf(const StageDecision& decision);
  Plan PlanOf(const Attempt& attempt) const;
  // The estimate of memory that the worst device has too little, as a part of what it has.
  double LackOf(const StageDecision& decision, bool recompute);
  Status Simulate();
  Status SimulateLeastFirst(std::vector<Attempt> attempts);
  Result<bool> Try(const Attempt& attempt);

  const Planning& planning_;
  std::string strategy_;
  Best best_;
  std::vector<Attempt> attempts_;
  std::set<StageDecision> seen_;
  std::map<int64_t, LayerSeconds> seconds_;  // by rows
  std::optional<LayerTable> table_;          // once memory is short
  int64_t work_ = 0;                         // simulated, in microbatches on a device
  size_t left_out_ = 0;
};

}  // namespace heddle
