#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "plan/microbatch_counts.h"
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

using CandidateMaker = std::function<Candidate(int64_t microbatches, bool recompute)>;

// As it is and, where it does not fit, with recomputation. Without room for a single microbatch in
// flight by the estimates it has one all the same, for the checker to judge.
Result<CountTuning::Trial> TryBoth(Best& best, const CandidateMaker& candidate_of, int64_t m) {
  for (const bool recompute : {false, true}) {
    const Candidate candidate = candidate_of(m, recompute);
    if (candidate.bound >= best.seconds()) break;
    PipeShape shape = ShapeOf(candidate, /*split=*/true);
    if (!shape.HasRoom()) {
      if (!recompute) continue;
      const std::vector<double> kept = shape.KeptByStage();
      for (size_t s = 0; s < kept.size(); ++s) {
        shape.limits[s] = std::max(shape.limits[s], kept[s]);
      }
    }
    Plan plan =
        PlanOf(candidate, "zb-h1", ZeroBubbleOrders(shape, "zb-h1", OrderMeasure::kMakespan));
    plan.strategy = "zb-h1";
    HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
    if (outcome == Best::Outcome::kDoesNotFit) continue;
    const bool fastest = outcome == Best::Outcome::kFastest;
    return CountTuning::Trial{recompute ? CountTuning::Fit::kRecomputed : CountTuning::Fit::kPlain,
                              fastest ? best.seconds() : std::numeric_limits<double>::infinity()};
  }
  return CountTuning::Trial{};
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
  const auto candidate_of = [&](int64_t m, bool recompute) {
    const auto costs = std::make_shared<StageCosts>(table, line, m);
    Partition partition = FileOrderStages(planning, stages, costs->rows());
    for (PartitionStage& stage : partition.stages) stage.recompute = recompute;
    return StraightCandidate(costs, partition);
  };
  CountTuning tuning;
  tuning.usual = int64_t{4} * stages;
  tuning.bound = [&](int64_t m) { return candidate_of(m, false).bound; };
  tuning.attempt = [&](int64_t m) { return TryBoth(best, candidate_of, m); };
  HEDDLE_RETURN_IF_ERROR(TuneMicrobatches(planning, tuning));
  return std::move(best).Take();
}

}  // namespace heddle
