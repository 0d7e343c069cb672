// What the planners of earlier systems share: heddle's own figures as their input, their decisions
// as Plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/baseline/cut_states.h"
#include "plan/baseline/stage_decision.h"
#include "plan/pipeline/layer_table.h"
#include "plan/planning.h"

namespace heddle {

// States of the model's chain: state l holds layers 0..l. Seconds are of `rows` samples on the mean
// of all devices (these systems know one kind of device only) times `scale`, as are the bytes that
// cross; half of what crosses forward and backward together, since they count one direction twice.
CutStates ChainStates(const LayerTable& table, int64_t rows, double scale, double parameter_scale);

// Collects decisions with what their own planner thinks of them, then gives each once to Best as a
// plan, the most promising first: with the cheapest way to sum gradients that every group of
// replicas can use, and with recomputation where they do not fit without. Where nothing fits yet,
// those that need least come first.
//
// Best may hold a plan of somebody else already. Then only what may be faster is simulated, and
// numbers of microbatches between powers of two are looked at where there is little to simulate.
class Attempts {
 public:
  // The table must outlive it.
  Attempts(const LayerTable& table, std::string strategy, Best& best)
      : planning_(table.planning()),
        strategy_(std::move(strategy)),
        best_(best),
        others_(best.seconds()),
        table_(table),
        bound_(table_),
        sums_(planning_) {}

  // `estimate` in seconds, in the planner's own model.
  void Add(StageDecision decision, const std::string& order, double estimate);

  // Has the planner propose for every number of microbatches, and then for those near the best.
  using Proposer = std::function<void(int64_t microbatches)>;
  Status Run(const Proposer& propose);

 private:
  struct Attempt {
    StageDecision decision;
    std::string order;
    double estimate;
    double bound;  // a time it cannot beat
  };
  Plan PlanOf(const Attempt& attempt) const;
  // The estimate of memory that the worst device has too little, as a part of what it has.
  double LackOf(const StageDecision& decision, bool recompute) const;
  std::vector<int64_t> Promising(int round) const;
  Status Simulate();
  Status SimulateLeastFirst(std::vector<Attempt> attempts);
  Result<bool> Try(const Attempt& attempt);
  Result<bool> TryOne(const Plan& plan);

  const Planning& planning_;
  std::string strategy_;
  Best& best_;
  double others_;  // seconds of what Best held at first
  const LayerTable& table_;
  DecisionBound bound_;
  mutable GradientSums sums_;
  std::vector<Attempt> attempts_;
  std::set<StageDecision> seen_;
  std::map<int64_t, double> bounds_;  // the least, by number of microbatches
  int64_t work_ = 0;                  // simulated, in microbatches on a device
  size_t left_out_ = 0;
};

}  // namespace heddle
