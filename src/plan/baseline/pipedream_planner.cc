#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/pipedream_partition.h"
#include "plan/baseline/stage_plans.h"

namespace heddle {
namespace {

// With more devices than this, stages get whole groups of devices: the program is quadratic in
// their number.
constexpr int kMostGroups = 64;

// PipeDream knows one bandwidth. Tried are the narrowest and the widest between neighbours.
std::set<double> Bandwidths(const Cluster& cluster) {
  std::set<double> all;
  for (int d = 1; d < cluster.device_count(); ++d) {
    all.insert(cluster.RouteBetween(DeviceId{d - 1}, DeviceId{d}).bandwidth.value);
  }
  if (all.empty()) return {1};  // one device: nothing is ever sent
  return {*all.begin(), *all.rbegin()};
}

StageDecision DecisionOf(const PipeDreamPartition& partition, int64_t microbatches) {
  StageDecision decision{{{}}, microbatches, /*depth=*/1};
  int next = 0;
  for (const PipeDreamStage& stage : partition.stages) {
    StageChoice choice{{stage.begin, stage.end - 1}, {}};
    for (int r = 0; r < stage.replicas; ++r) choice.devices.push_back(next++);
    decision.pipelines[0].push_back(std::move(choice));
  }
  return decision;
}

}  // namespace

Status TryPipeDream(const LayerTable& table, const std::string& strategy, Best& best) {
  const Planning& planning = table.planning();
  const int all = planning.cluster->device_count();
  const int unit = (all + kMostGroups - 1) / kMostGroups;
  const int devices = all / unit * unit;
  Attempts attempts(table, strategy, best);
  if (unit > 1 && best.tried() == 0) {
    best.Note(fmt::format("stages get devices in groups of {}; {} of {} used", unit, devices, all));
  }
  // The stages of one search are near the best of the next one, too.
  std::vector<std::vector<PipeDreamStage>> found = {{{0, planning.chain.size(), devices}}};
  const auto propose = [&](int64_t m) {
    const int64_t rows = std::max<int64_t>(1, planning.request.batch / m);
    // The optimizer pays for a sum of gradients with every minibatch. Run with a flush there is
    // one for all m, so both are tried: as its authors count, and what a user of it would give it.
    for (const double sums : {1.0, 1.0 / static_cast<double>(m)}) {
      const CutStates states = ChainStates(table, rows, 1, sums);
      for (const double bandwidth : Bandwidths(*planning.cluster)) {
        double limit = std::numeric_limits<double>::infinity();
        for (const std::vector<PipeDreamStage>& stages : found) {
          limit = std::min(limit, PipeDreamSeconds(states, stages, bandwidth));
        }
        const PipeDreamPartition partition =
            PartitionPipeDream(states, devices, bandwidth, unit, limit);
        if (std::find(found.begin(), found.end(), partition.stages) == found.end()) {
          found.push_back(partition.stages);
        }
        const double cycles =
            static_cast<double>(m) + static_cast<double>(partition.stages.size()) - 1;
        attempts.Add(DecisionOf(partition, m), "1f1b", cycles * partition.seconds);
      }
    }
  };
  return attempts.Run(propose);
}

Result<Plan> PlanPipeDream(const Planning& planning) {
  Best best(planning);
  HEDDLE_RETURN_IF_ERROR(TryPipeDream(LayerTable(planning), "pipedream", best));
  return std::move(best).Take();
}

}  // namespace heddle
