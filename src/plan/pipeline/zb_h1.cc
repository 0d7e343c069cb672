#include <algorithm>
#include <numeric>

#include "plan/order/zero_bubble.h"
#include "plan/pipeline/baselines.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

// One stage per device in the order of the file, as 1f1b has them.
Partition FileOrderStages(const Planning& planning, int stages, int64_t rows) {
  std::vector<int> types;
  for (int s = 0; s < stages; ++s) {
    types.push_back(planning.cluster->devices()[static_cast<size_t>(s)].type);
  }
  const LayerSeconds seconds(planning, rows);
  Partition partition;
  for (const LayerRun& run : BalancedRuns(seconds, planning.chain.size(), types)) {
    const int at = static_cast<int>(partition.stages.size());
    partition.stages.push_back({run.first, run.last + 1, {at, 1}, false});
  }
  return partition;
}

}  // namespace

Result<Plan> PlanZbH1(const Planning& planning) {
  const int devices = planning.cluster->device_count();
  const int stages = std::min(planning.chain.size(), devices);
  const LayerTable table(planning);
  std::vector<int> file(static_cast<size_t>(devices));
  std::iota(file.begin(), file.end(), 0);
  const auto line =
      std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{std::move(file)});
  Best best(planning);
  const int64_t most =
      planning.options.microbatches.value_or(std::min<int64_t>(4 * stages, planning.options.batch));
  for (int64_t m = planning.options.microbatches.value_or(1); m <= most; m *= 2) {
    for (const bool recompute : {false, true}) {
      const auto costs = std::make_shared<StageCosts>(table, line, m);
      Partition partition = FileOrderStages(planning, stages, costs->rows());
      for (PartitionStage& stage : partition.stages) stage.recompute = recompute;
      const Candidate candidate = StraightCandidate(costs, partition);
      if (candidate.bound >= best.seconds()) break;
      const PipeShape shape = ShapeOf(candidate, /*split=*/true);
      if (!shape.HasRoom()) continue;
      Plan plan =
          PlanOf(candidate, "zb-h1", ZeroBubbleOrders(shape, "zb-h1", OrderMeasure::kMakespan));
      plan.strategy = "zb-h1";
      HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
      if (outcome != Best::Outcome::kDoesNotFit) break;
    }
  }
  return std::move(best).Take();
}

}  // namespace heddle
