#include "plan/pipeline/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "plan/least_memory.h"
#include "plan/microbatch_counts.h"
#include "plan/order/orders.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Fit = CountTuning::Fit;

// Tries the plan as it is and, where it does not fit, with recomputation.
Result<CountTuning::Trial> TryWithRecompute(Best& best, Plan plan) {
  HEDDLE_ASSIGN(Best::Outcome outcome, best.Try(plan));
  Fit fit = Fit::kPlain;
  if (outcome == Best::Outcome::kDoesNotFit) {
    for (PipelinePlan& pipeline : plan.pipelines) {
      for (StagePlan& stage : pipeline.stages) stage.recompute = true;
    }
    HEDDLE_ASSIGN(outcome, best.Try(std::move(plan)));
    fit = outcome == Best::Outcome::kDoesNotFit ? Fit::kNone : Fit::kRecomputed;
  }
  return CountTuning::Trial{fit, outcome == Best::Outcome::kFastest ? best.seconds() : kInfinity};
}

// ---- data parallelism ---------------------------------------------------------------------------

// Seconds of the whole model for `rows` samples, by device type.
std::vector<double> ModelSeconds(const Planning& planning, int64_t rows) {
  const OpCost cost = planning.cost();
  std::vector<double> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    double sum = 0;
    for (const Op& op : planning.graph.ops()) {
      if (op.phase != Phase::kUpdate) sum += cost.RowsSeconds(op, rows, type).value;
    }
    seconds.push_back(sum);
  }
  return seconds;
}

// The slowest device's seconds for all of its samples, at least: nobody has fewer of a microbatch
// than its share, rounded down.
double ReplicasBound(const Planning& planning, const std::vector<double>& shares,
                     int64_t microbatches) {
  const int64_t rows = planning.options.batch / microbatches;
  double all = 0, slowest = 0;
  for (const double share : shares) all += share;
  std::map<std::pair<int, int64_t>, double> seconds;  // by type and rows
  for (size_t d = 0; d < shares.size(); ++d) {
    const auto mine = static_cast<int64_t>(static_cast<double>(rows) * shares[d] / all);
    if (mine == 0) continue;
    const int type = planning.cluster->devices()[d].type;
    const auto [found, is_new] = seconds.try_emplace({type, mine}, 0);
    if (is_new) {
      found->second = LayerSeconds(planning, mine).Of(type, 0, planning.chain.size() - 1);
    }
    slowest = std::max(slowest, found->second);
  }
  return static_cast<double>(microbatches) * slowest;
}

Plan ReplicasOf(const Planning& planning, const std::string& strategy,
                const std::vector<double>& shares, int64_t microbatches) {
  std::vector<int> everyone(shares.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  Plan plan = planning.Blank(strategy, "accumulate");
  plan.microbatches = microbatches;
  plan.all_reduce = CheapestAllReduce(planning, everyone, plan.bucket);
  StagePlan stage;
  stage.chunks = {{0, planning.chain.size() - 1}};
  for (const Device& device : planning.cluster->devices()) stage.devices.push_back(device.name);
  stage.shares = shares;
  stage.order = OneForwardOneBackward(1, static_cast<int>(microbatches))[0];
  plan.pipelines = {{{std::move(stage)}}};
  return plan;
}

Result<Plan> PlanReplicas(const Planning& planning, const std::string& strategy,
                          const std::vector<double>& shares) {
  const int devices = planning.cluster->device_count();
  if (planning.options.batch < devices) {
    return Infeasible(strategy,
                      fmt::format("a batch of {} leaves some of {} devices without a sample",
                                  planning.options.batch, devices),
                      fmt::format("give --batch {} or more, or fewer devices", devices));
  }
  Best best(planning);
  CountTuning tuning;  // fewer, larger microbatches are faster; more of them need less memory
  tuning.in_vain = 1;
  tuning.bound = [&](int64_t m) { return ReplicasBound(planning, shares, m); };
  tuning.attempt = [&](int64_t m) {
    return TryWithRecompute(best, ReplicasOf(planning, strategy, shares, m));
  };
  if (EachHoldsModel(planning)) {
    HEDDLE_RETURN_IF_ERROR(TuneMicrobatches(planning, tuning));
  } else {  // nothing fits: what needs least tells by how much
    HEDDLE_RETURN_IF_ERROR(tuning.attempt(MicrobatchCounts(planning).back()));
  }
  return std::move(best).Take();
}

// ---- pipelines ----------------------------------------------------------------------------------

StagePlan OneDeviceStage(const Planning& planning, int device, std::vector<LayerRun> chunks,
                         WorkOrder order) {
  StagePlan stage;
  stage.chunks = std::move(chunks);
  stage.devices = {planning.cluster->devices()[static_cast<size_t>(device)].name};
  stage.shares = {1};
  stage.order = std::move(order);
  return stage;
}

std::vector<int> FirstTypes(const Planning& planning, int devices, int rounds) {
  std::vector<int> types;
  for (int k = 0; k < devices * rounds; ++k) {
    types.push_back(planning.cluster->devices()[static_cast<size_t>(k % devices)].type);
  }
  return types;
}

// The stages for a number of microbatches, and a time no order of them can beat: before a stage's
// work of all microbatches lies the way of the first through the stages before it.
struct Stages {
  std::vector<LayerRun> runs;  // chunk k is on device k modulo the number of devices
  double bound;
};

Stages StagesFor(const Planning& planning, int64_t microbatches, int devices, int rounds) {
  const std::vector<int> types = FirstTypes(planning, devices, rounds);
  const LayerSeconds seconds(planning, std::max<int64_t>(1, planning.options.batch / microbatches));
  Stages stages{BalancedRuns(seconds, planning.chain.size(), types), 0};
  std::vector<double> work(static_cast<size_t>(devices), 0);
  std::vector<double> before(static_cast<size_t>(devices), 0);
  double way = 0;
  for (size_t k = 0; k < stages.runs.size(); ++k) {
    const size_t device = k % static_cast<size_t>(devices);
    if (k < static_cast<size_t>(devices)) before[device] = way;
    const double chunk = seconds.Of(types[k], stages.runs[k].first, stages.runs[k].last);
    work[device] += chunk;
    way += chunk;
  }
  for (size_t d = 0; d < work.size(); ++d) {
    stages.bound = std::max(stages.bound, before[d] + static_cast<double>(microbatches) * work[d]);
  }
  return stages;
}

using OrderMaker = std::function<std::vector<WorkOrder>(int microbatches)>;

// `rounds` runs of layers per device. Microbatches are a multiple of `unit`.
Result<Plan> PlanStages(const Planning& planning, const std::string& strategy, int devices,
                        int rounds, int64_t unit, const OrderMaker& orders) {
  Best best(planning);
  CountTuning tuning;
  tuning.unit = unit;
  tuning.usual = int64_t{4} * devices;
  tuning.bound = [&](int64_t m) { return StagesFor(planning, m, devices, rounds).bound; };
  tuning.attempt = [&](int64_t m) {
    const Stages stages = StagesFor(planning, m, devices, rounds);
    Plan plan = planning.Blank(strategy, strategy);
    plan.microbatches = m;
    plan.pipelines.emplace_back();
    const std::vector<WorkOrder> work = orders(static_cast<int>(m));
    for (int d = 0; d < devices; ++d) {
      std::vector<LayerRun> chunks;
      for (int k = d; k < devices * rounds; k += devices) {
        chunks.push_back(stages.runs[static_cast<size_t>(k)]);
      }
      plan.pipelines[0].stages.push_back(
          OneDeviceStage(planning, d, std::move(chunks), work[static_cast<size_t>(d)]));
    }
    return TryWithRecompute(best, std::move(plan));
  };
  HEDDLE_RETURN_IF_ERROR(TuneMicrobatches(planning, tuning));
  return std::move(best).Take();
}

Result<Plan> PlanStraight(const Planning& planning, const std::string& strategy,
                          std::vector<WorkOrder> (*orders)(int stages, int microbatches)) {
  const int stages = std::min(planning.chain.size(), planning.cluster->device_count());
  return PlanStages(planning, strategy, stages, 1, 1,
                    [&](int microbatches) { return orders(stages, microbatches); });
}

}  // namespace

Result<Plan> PlanDataParallel(const Planning& planning) {
  const auto devices = static_cast<size_t>(planning.cluster->device_count());
  return PlanReplicas(planning, "dp", std::vector<double>(devices, 1));
}

Result<Plan> PlanDataParallelProportional(const Planning& planning) {
  const int64_t rows =
      std::max<int64_t>(1, planning.options.batch / planning.cluster->device_count());
  const std::vector<double> seconds = ModelSeconds(planning, rows);
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::vector<double> shares;
  for (const Device& device : planning.cluster->devices()) {
    shares.push_back(fastest / seconds[static_cast<size_t>(device.type)]);
  }
  return PlanReplicas(planning, "dp-proportional", shares);
}

Result<Plan> PlanGpipe(const Planning& planning) {
  return PlanStraight(planning, "gpipe", &GpipeOrders);
}

Result<Plan> PlanOneForwardOneBackward(const Planning& planning) {
  return PlanStraight(planning, "1f1b", &OneForwardOneBackward);
}

Result<Plan> PlanInterleaved(const Planning& planning) {
  constexpr int kChunks = 2;
  const int stages = std::min(planning.chain.size() / kChunks, planning.cluster->device_count());
  if (stages < 1) {
    return Infeasible("interleaved", "the model has one layer only", "it needs two per device");
  }
  if (planning.options.batch < stages) {
    return Infeasible("interleaved",
                      fmt::format("a batch of {} has fewer samples than the {} stages",
                                  planning.options.batch, stages),
                      fmt::format("give --batch {} or more", stages));
  }
  if (const int64_t m = planning.options.microbatches.value_or(0); m % stages != 0) {
    return Infeasible("interleaved",
                      fmt::format("{} microbatches are not a multiple of {} stages", m, stages),
                      fmt::format("give --microbatches {}", (m / stages + 1) * stages));
  }
  return PlanStages(planning, "interleaved", stages, kChunks, stages, [&](int microbatches) {
    return InterleavedOrders(stages, kChunks, microbatches);
  });
}

}  // namespace heddle
