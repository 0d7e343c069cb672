#include "plan/pipeline/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/least_memory.h"
#include "plan/microbatch_counts.h"
#include "plan/order/orders.h"
#include "plan/pipeline/plain_plans.h"

namespace heddle {
namespace {

Result<Plan> PlanReplicas(const Planning& planning, const std::string& strategy,
                          const std::vector<double>& shares) {
  const int devices = planning.cluster->device_count();
  if (planning.request.batch < devices) {
    return Infeasible(strategy,
                      fmt::format("a batch of {} leaves some of {} devices without a sample",
                                  planning.request.batch, devices),
                      fmt::format("give --batch {} or more, or fewer devices", devices));
  }
  Best best(planning);
  CountTuning tuning;  // fewer, larger microbatches are faster; more of them need less memory
  tuning.in_vain = 1;
  tuning.bound = [&](int64_t m) { return ReplicasBound(planning, shares, m); };
  tuning.attempt = [&](int64_t m) {
    return TryWithRecompute(best, ReplicasPlan(planning, strategy, shares, m));
  };
  if (EachHoldsModel(planning)) {
    HEDDLE_RETURN_IF_ERROR(TuneMicrobatches(planning, tuning));
  } else {  // nothing fits: what needs least tells by how much
    HEDDLE_RETURN_IF_ERROR(tuning.attempt(MicrobatchCounts(planning).back()));
  }
  return std::move(best).Take();
}

using OrderMaker = std::function<std::vector<WorkOrder>(int microbatches)>;

// `rounds` runs of layers per device. Microbatches are a multiple of `unit`.
Result<Plan> PlanStages(const Planning& planning, const std::string& strategy, int devices,
                        int rounds, int64_t unit, const OrderMaker& orders) {
  Best best(planning);
  CountTuning tuning;
  tuning.unit = unit;
  tuning.usual = int64_t{4} * devices;
  tuning.bound = [&](int64_t m) { return FileStagesFor(planning, m, devices, rounds).bound; };
  tuning.attempt = [&](int64_t m) {
    return TryWithRecompute(
        best, FileStagesPlan(planning, strategy, FileStagesFor(planning, m, devices, rounds),
                             orders(static_cast<int>(m)), m));
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
  return PlanReplicas(planning, "dp", EqualShares(planning));
}

Result<Plan> PlanDataParallelProportional(const Planning& planning) {
  return PlanReplicas(planning, "dp-proportional", SharesBySpeed(planning));
}

Result<Plan> PlanZbH1(const Planning& planning) {
  const LayerTable table(planning);
  const FileOrder file(table);
  Best best(planning);
  CountTuning tuning;
  tuning.usual = int64_t{4} * file.stages();
  tuning.bound = [&](int64_t m) { return file.CandidateFor(m, /*recompute=*/false).bound; };
  tuning.attempt = [&](int64_t m) { return TryZbH1(file, "zb-h1", m, best); };
  HEDDLE_RETURN_IF_ERROR(TuneMicrobatches(planning, tuning));
  return std::move(best).Take();
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
  if (planning.request.batch < stages) {
    return Infeasible("interleaved",
                      fmt::format("a batch of {} has fewer samples than the {} stages",
                                  planning.request.batch, stages),
                      fmt::format("give --batch {} or more", stages));
  }
  if (const int64_t m = planning.request.microbatches.value_or(0); m % stages != 0) {
    return Infeasible("interleaved",
                      fmt::format("{} microbatches are not a multiple of {} stages", m, stages),
                      fmt::format("give --microbatches {}", (m / stages + 1) * stages));
  }
  return PlanStages(planning, "interleaved", stages, kChunks, stages, [&](int microbatches) {
    return InterleavedOrders(stages, kChunks, microbatches);
  });
}

}  // namespace heddle
