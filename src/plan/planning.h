// What every planner gets and gives back.
//
//   HEDDLE_ASSIGN(Planning planning, Planning::Make(request));
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

// Where the replicas of LocalSGD are: one on each device, or all on every stage of one pipeline.
enum class ReplicaPlace : uint8_t { kAny, kWhole, kPipelined };

// How programs of one mesh are searched: the folded dynamic program, A* after it, or the former
// with A* for the plan that is taken (docs/spmd.md).
enum class SpmdSearch : uint8_t { kAuto, kFold, kAStar };
inline constexpr std::string_view kSpmdSearchChoices = "auto, fold or astar";
std::optional<SpmdSearch> ParseSpmdSearch(std::string_view name);

struct PlanOptions {
  std::string model;                    // of the zoo, or a layer profile's path
  int64_t profile_batch = 0;            // samples that the layer profile was measured with
  std::string profile_device;           // type its times hold for; empty: see ProfiledType
  int64_t batch = 256;                  // samples per update over all devices
  std::optional<int64_t> microbatches;  // tuned unless given
  DType dtype = DType::kF32;
  Optimizer optimizer = Optimizer::kAdam;
  double clip = 0;  // largest norm of all gradients together; 0: none
  GradientSync sync = GradientSync::kAllReduce;
  bool compress = false;  // gradients travel as f16 between replicas
  LinkModel links = LinkModel::kShared;
  WeightVersions versions = WeightVersions::kStash;  // of asynchronous pipelines
  int64_t every = 8;                                 // local updates between two averages
  ReplicaPlace replicas = ReplicaPlace::kAny;        // of LocalSGD
  SpmdSearch search = SpmdSearch::kAuto;             // of SPMD programs
  Deadline deadline;                                 // of the search
};

// The type of device that a layer profile was measured on: the one named; else the first with
// "v100" in its name, for that is what published profiles were measured on; else the fastest.
Result<DeviceTypeSpec> ProfiledType(const ClusterSpec& cluster, const std::string& name,
                                    DType dtype);

// Everything a planner reads. Immutable once made.
struct Planning {
  PlanOptions options;
  Graph graph;
  LayerChain chain;
  const Cluster* cluster;
  const Profile* profile;  // may be null

  // The cluster and the profile must outlive it.
  static Result<Planning> Make(const PlanOptions& options, const Cluster& cluster,
                               const Profile* profile);

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
// Once the deadline has passed no candidate is looked at: each is kSlower, and the plan taken says
// that the search was cut short.
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
  const std::optional<Plan>& plan() const { return plan_; }  // the best so far

  Result<Plan> Take() &&;

 private:
  Outcome Consider(Plan plan, const Evaluation& evaluation);
  bool late() const { return planning_.options.deadline.passed(); }
  void Tell(std::string how, const Evaluation& evaluation);

  const Planning& planning_;
  std::optional<Plan> plan_;
  std::optional<Error> refused_;  // the candidate that lacks least
  Bytes least_lack_;
  std::string strategy_ = "plan";
  int64_t tried_ = 0;
  std::vector<std::string> notes_;
  std::vector<TriedPlan> told_;
};

}  // namespace heddle
