// What every planner gets and gives back.
//
//   HEDDLE_ASSIGN(Planning planning, Planning::Make(request, cluster, nullptr));
//   HEDDLE_ASSIGN(Plan plan, PlanGpipe(planning));          // or any entry of choose/planners.h
//
// A planner makes candidate Plans; Evaluate lowers, checks and simulates one, under the same cost
// model and memory limits for all of them. Best keeps the fastest that fits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cost/op_cost.h"
#include "model/layer_chain.h"
#include "model/zoo.h"
#include "plan/deadline.h"
#include "program/check/check.h"
#include "program/plan/plan.h"
#include "simulate/simulator.h"

namespace heddle {

// The type of device that a layer profile was measured on: the one named; else the first with
// "v100" in its name, for that is what published profiles were measured on; else the fastest.
Result<DeviceTypeSpec> ProfiledType(const ClusterSpec& cluster, const std::string& name,
                                    DType dtype);

// Everything a planner reads. Immutable once made.
struct Planning {
  PlanRequest request;
  Graph graph;
  LayerChain chain;
  const Cluster* cluster;
  const Profile* profile;  // may be null
  Deadline deadline = {};  // of the search

  // The cluster and the profile must outlive it.
  static Result<Planning> Make(const PlanRequest& request, const Cluster& cluster,
                               const Profile* profile, const Deadline& deadline = {});

  OpCost cost() const { return OpCost(graph, profile); }
  const DeviceTypeSpec& type_of(int device) const { return cluster->type_of(DeviceId{device}); }

  // A plan with everything filled in but the decisions.
  Plan Blank(const std::string& strategy, const std::string& order) const;
};

struct Evaluation {
  Program program;
  Verdict verdict;
  Simulation simulation;  // of a plan that fits

  Bytes lacks;              // what the worst device has too little; 0: the plan fits
  std::string lacks_where;  // "device 2 (b:0) needs 12.4 GiB and has 12.0 GiB: 410 MiB too much"
};

// Lowers, checks and simulates. Any finding besides memory is an internal error, for planners must
// not make broken plans.
Result<Evaluation> Evaluate(const Planning& planning, const Plan& plan, bool keep_events);

// The same for one of many: of the checks only memory, and that of one device where several have
// the same work; none at all when the plan takes `limit` or longer. While there is no limit memory
// comes first, and what does not fit is not simulated. Whoever keeps the plan must Evaluate it.
Result<Evaluation> EvaluateQuickly(const Planning& planning, const Plan& plan, Seconds limit);

// The same, with too little memory as an infeasible error.
Result<Evaluation> EvaluateFitting(const Planning& planning, const Plan& plan, bool keep_events);

// The same for a plan that was read from a file, with its own model and cluster.
struct LoadedPlan {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Planning> planning;
  Plan plan;
};
// Checks both hashes: an edited model or cluster no longer matches the decisions.
Result<LoadedPlan> LoadForUse(const std::string& path, const Profile* profile);

// For an all-reduce of so many bytes over these devices.
CollectiveAlgorithm CheapestAllReduce(const Planning& planning, const std::vector<int>& devices,
                                      Bytes bytes);

// Fills in iteration_seconds, memory and the bounds of the plan.
void FillEstimate(const Planning& planning, const Evaluation& evaluation, Plan& plan);

// The fastest of the candidates that fit. When none does: an error about the one that lacks least.
// Once the deadline has passed, or would have passed after one more as large as those before, no
// candidate is looked at: each is kSlower, and the plan taken says that the search was cut short.
class Best {
 public:
  explicit Best(const Planning& planning) : planning_(planning) {}

  enum class Outcome : uint8_t { kDoesNotFit, kSlower, kFastest };
  Result<Outcome> Try(Plan plan);
  // The same for several, evaluated by two threads. With `how` they were made, one for each, the
  // plan taken will tell of the others.
  Result<std::vector<Outcome>> TryAll(std::vector<Plan> plans, std::vector<std::string> how = {});
  double seconds() const;  // of the best so far; infinite when there is none
  int64_t microbatches() const { return plan_ ? plan_->microbatches : 0; }  // likewise
  void Note(std::string note) { notes_.push_back(std::move(note)); }
  int64_t tried() const { return tried_; }
  // Is all time used that is not needed to check the best plan?
  bool late() { return LateFor(0); }
  // Until then.
  Deadline deadline() const;
  const std::optional<Plan>& plan() const { return plan_; }  // the best so far

  Result<Plan> Take() &&;

 private:
  Outcome Consider(Plan plan, Evaluation evaluation);
  // Work is in ops on devices; the clock tells how long it takes.
  double WorkOf(const Plan& plan, int64_t microbatches) const;
  double EvaluationWork(const Plan& plan) const;
  double SecondsFor(double work) const;  // as long as it took so far
  double Reserve() const;
  bool LateFor(double work);
  void Learn(double work, double left_before);
  void Tell(std::string how, const Evaluation& evaluation);

  const Planning& planning_;
  std::optional<Plan> plan_;
  std::optional<Evaluation> evaluation_;  // of `plan_`, where it is kept
  std::optional<Error> refused_;          // the candidate that lacks least
  Bytes least_lack_;
  std::string strategy_ = "plan";
  int64_t tried_ = 0;
  std::vector<std::string> notes_;
  std::vector<TriedPlan> told_;
  double work_done_ = 0, spent_ = 0;  // by evaluations so far; the latter in seconds
  bool cut_short_ = false;
};

}  // namespace heddle
