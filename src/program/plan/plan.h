// Plan: what a planner decided, small enough for a person to read, edit and diff. docs/plan.md
// explains the JSON by example; lower.h turns a Plan into a Program.
//
// Self-contained: it carries the request it was made for, with the model's spec and every option,
// and the whole cluster. Invariant (checked on loading): every layer belongs to exactly one chunk
// per pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "base/units.h"
#include "cluster/cluster_spec.h"
#include "cost/network_cost.h"
#include "model/graph.h"
#include "program/plan/order_text.h"
#include "program/plan/plan_request.h"
#include "program/plan/spmd_plan.h"
#include "program/plan/stage_body.h"

namespace heddle {

// A run of consecutive layers, both ends included.
struct LayerRun {
  int32_t first = 0;
  int32_t last = 0;

  int size() const { return last - first + 1; }
  auto operator<=>(const LayerRun&) const = default;
};

struct StagePlan {
  std::vector<LayerRun> chunks;      // more than one when interleaved
  std::vector<std::string> devices;  // names of the cluster
  std::vector<double> shares;        // of each microbatch, one per device
  bool recompute = false;            // keep only the stage's input; run forward again in backward
  WorkOrder order;                   // what each of its devices does
  // Given: the devices are those of its mesh, row by row, and have no shares. Every stage has one,
  // or none.
  std::optional<StageBody> body;
};

struct PipelinePlan {
  std::vector<StagePlan> stages;
};

// A pipeline that is never flushed: stage s of S has S - s microbatches in flight, and updates its
// weights after each (kTwo: after each batch of them).
struct AsyncPlan {
  WeightVersions versions = WeightVersions::kStash;
};

// Replicas of the model go their own way for some updates, a round, and are averaged, each with the
// weight of its samples. Replica r is pipeline r, one device; or, where there is one pipeline, all
// are multiplexed over it: the updates of a round take turns, microbatch m that of replica m modulo
// their number. A single replica on a single device is a whole one. The batch is what one local
// update sees.
struct LocalPlan {
  std::vector<int64_t> steps;  // local updates of a round, by replica

  int64_t updates() const;  // of a round, all replicas
  bool HasWholeReplicas(const std::vector<PipelinePlan>& pipelines) const {
    const bool alone =
        steps.size() == 1 && pipelines.size() == 1 && pipelines[0].stages.size() == 1;
    return pipelines.size() > 1 || alone;
  }
};

// What the simulator said of the plan, and how much better it could be.
struct Estimate {
  double iteration_seconds = 0;
  double schedule_bound_seconds = 0;  // no order of this partition can be faster
  double lower_bound_seconds = 0;     // no plan of this family can
  double guaranteed_seconds = 0;  // the list order of this partition takes no longer; 0: unknown
  struct Memory {
    std::string device;
    int64_t peak_bytes = 0;
    int64_t capacity_bytes = 0;
  };
  std::vector<Memory> memory;  // of the devices used
};

// A plan that was simulated: the one taken, or one that lost, and where its time goes.
struct TriedPlan {
  std::string how;               // what tells it from the others, for people
  double iteration_seconds = 0;  //
  double compute_seconds = 0;    // of the device that computes longest; the rest it waits
  std::string fullest;           // device whose memory is the fullest
  int64_t peak_bytes = 0;        // there
  int64_t capacity_bytes = 0;    //

  bool fits() const { return peak_bytes <= capacity_bytes; }
};

// How near an SPMD program is to the cheapest of its mesh and ratios that fits, in the additive
// cost that programs are searched by: every op at the pace of its slowest device, every exchange by
// itself. The time of one microbatch; what is simulated may be less than the bound, for there
// exchanges overlap.
struct SearchCertificate {
  std::string search;        // "astar"
  double cost_seconds = 0;   // of the plan's program
  double bound_seconds = 0;  // no program costs less
  int64_t expanded = 0;      // states looked at for it

  double gap() const { return bound_seconds > 0 ? cost_seconds / bound_seconds - 1 : 0; }
};

struct SearchReport {
  double planning_seconds = 0;
  int64_t candidates = 0;          // plans that were lowered and simulated
  std::vector<std::string> notes;  // what was left out, what exactness was given up
  std::vector<TriedPlan> tried;    // the best first, which is this plan; not every planner tells
  std::optional<SearchCertificate> certificate;  // of an SPMD program
};

struct Plan {
  std::string strategy;  // taken; the request may say auto
  std::string order_name;
  PlanRequest request;     // what was asked, with the profile's device found
  std::string model_hash;  // of the Graph, with batch, dtype and optimizer
  ClusterSpec cluster;
  std::string cluster_hash;
  std::string profile_hash;  // empty: analytic costs
  int64_t microbatches = 1;
  Bytes bucket{25 << 20};  // gradients are summed in buckets of at least this size
  CollectiveAlgorithm all_reduce = CollectiveAlgorithm::kRing;
  std::vector<PipelinePlan> pipelines;
  std::optional<SpmdPlan> spmd;    // given: there are no pipelines
  std::optional<AsyncPlan> async;  // given: one pipeline, and orders of one body (docs/async.md)
  std::optional<LocalPlan> local;  // given: orders are of one local update (docs/async.md)
  Estimate estimate;
  SearchReport search;

  int devices_used() const;
  // Are stages divided by layouts, rather than by shares?
  bool has_bodies() const;
  // Its weights are those that one device would have, but for rounding.
  bool trains_as_one_device() const { return !async && !local; }
  // Batches that one iteration, a body of the Program, goes through.
  int64_t batches_per_iteration() const { return local ? local->updates() : 1; }
  // What one of them takes, if an iteration takes so long; and as estimated.
  double seconds_per_batch(double iteration_seconds) const {
    return iteration_seconds / static_cast<double>(batches_per_iteration());
  }
  double seconds_per_batch() const { return seconds_per_batch(estimate.iteration_seconds); }
};

// Of an update of a LocalSGD round: whose it is, and which of its own. In the order in which they
// would be done if all replicas took the same time for a round.
struct LocalUpdate {
  int32_t replica = 0;
  int32_t step = 0;

  auto operator<=>(const LocalUpdate&) const = default;
};
std::vector<LocalUpdate> UpdatesInTurn(const LocalPlan& local);

// How many updates older than its own step the weights are that a layer reads.
struct LayerAge {
  int64_t forward = 0, backward = 0;
};
// By layer; empty for a synchronous plan.
std::vector<LayerAge> WeightAges(const Plan& plan, int layers);

// F0 B0 F1 B1 …: what a stage of an asynchronous pipeline does in one body, counted from where it
// stands.
WorkOrder ForwardsAndBackwardsInTurn(int64_t microbatches);

inline constexpr char kPlanSchema[] = "heddle.plan/2";

// `graph` is the plan's own: the names of an SPMD program's ops and tensors are there.
Json PlanToJson(const Plan& plan, const Graph& graph);
Result<Plan> PlanFromJson(const JsonField& json);
// The model that the plan was made for.
Result<Graph> GraphOf(const Plan& plan);

Result<Plan> LoadPlan(const std::string& path);
Result<Plan> ParsePlan(const std::string& text, const std::string& file);

// Every layer 0..layers-1 exactly once in each pipeline, each device in one stage only, orders that
// name every microbatch once, forward before backward, and that do not wait for each other. Of an
// SPMD plan only what needs no graph (spmd_check.h has the rest, and lowering asks for it). `where`
// names the plan in errors.
Status ValidatePlan(const Plan& plan, int layers, const std::string& where);

}  // namespace heddle
