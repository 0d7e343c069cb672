#include <algorithm>
#include <limits>
#include <numeric>

#include "cost/network_cost.h"
#include "plan/baseline/dapple_search.h"
#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/stage_plans.h"

namespace heddle {
namespace {

// How many of the search's decisions are simulated for each size of microbatch.
constexpr size_t kSimulated = 3;

// What a sum over all devices reaches, as NCCL's bandwidth is reported: bytes that one member sends
// over the time it takes.
double CollectiveBandwidth(const Planning& planning) {
  std::vector<DeviceId> group;
  for (int d = 0; d < planning.cluster->device_count(); ++d) group.push_back(DeviceId{d});
  const std::vector<Bytes> sizes = {Bytes{64 << 20}};
  const NetworkCost network(*planning.cluster);
  CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, CollectiveAlgorithm::kRing,
                            0};
  request.algorithm = network.Cheapest(request);
  const double moved =
      BytesMoved(CollectiveKind::kAllReduce, group.size(), static_cast<double>(sizes[0].value));
  return moved / network.Collective(request).seconds.value;
}

// The narrowest links of each kind, since DAPPLE knows one of each.
DappleNetwork NetworkOf(const Planning& planning) {
  const Cluster& cluster = *planning.cluster;
  DappleNetwork network;
  network.many_local_links = false;
  network.counts_next_state = false;
  double local = std::numeric_limits<double>::infinity();
  double away = local;
  for (size_t n = 0; n < cluster.nodes().size(); ++n) {
    const std::vector<DeviceId>& devices = cluster.nodes()[n].devices;
    for (size_t d = 1; d < devices.size(); ++d) {
      local = std::min(local, cluster.RouteBetween(devices[d - 1], devices[d]).bandwidth.value);
    }
    if (n == 0 || devices.empty() || cluster.nodes()[n - 1].devices.empty()) continue;
    away = std::min(
        away, cluster.RouteBetween(cluster.nodes()[n - 1].devices[0], devices[0]).bandwidth.value);
  }
  network.local = local;
  network.point_to_point = away;
  network.collective = cluster.device_count() > 1 ? CollectiveBandwidth(planning) : away;
  return network;
}

Plan PlanOf(const Planning& planning, const DappleDecision& decision, int depth) {
  Plan plan = planning.Blank("dapple", depth == 1 ? "early-backward" : "early-backward-eager");
  plan.microbatches = decision.microbatches;
  std::vector<StageChoice> stages;
  NodeCounts used(planning.cluster->nodes().size(), 0);
  for (const DappleStage& stage : decision.stages) {
    StageChoice choice{{stage.begin, stage.end - 1}, {}};
    for (size_t n = 0; n < used.size(); ++n) {
      const std::vector<DeviceId>& devices = planning.cluster->nodes()[n].devices;
      for (int k = 0; k < stage.devices[n]; ++k) {
        choice.devices.push_back(devices[static_cast<size_t>(used[n]++)].value);
      }
    }
    stages.push_back(std::move(choice));
  }
  std::vector<int32_t> all(static_cast<size_t>(decision.microbatches));
  std::iota(all.begin(), all.end(), 0);
  plan.pipelines = {EarlyBackward(planning, stages, all, depth)};
  return plan;
}

}  // namespace

Result<Plan> PlanDapple(const Planning& planning) {
  DappleInput input{nullptr, {}, NetworkOf(planning)};
  for (const Node& node : planning.cluster->nodes()) {
    input.nodes.push_back(static_cast<int>(node.devices.size()));
  }
  const int64_t batch = planning.options.batch;
  const int64_t fixed = planning.options.microbatches.value_or(0);
  const int64_t most = std::max<int64_t>(1, 4 * planning.cluster->device_count());
  Attempts attempts(planning);
  // Of a microbatch, the samples that one of its devices gets.
  for (int64_t rows = 1; rows <= batch; rows *= 2) {
    const CutStates states =
        ChainStates(planning, rows, static_cast<double>(batch) / static_cast<double>(rows), 1);
    input.states = &states;
    size_t simulated = 0;
    for (const DappleDecision& decision : SearchDapple(input, batch, rows, fixed)) {
      if (simulated == kSimulated) break;
      if (fixed == 0 && decision.microbatches > most) continue;
      ++simulated;
      for (const int depth : {1, 2}) {
        attempts.Add(PlanOf(planning, decision, depth), states.back().seconds / decision.speedup);
      }
    }
  }
  return std::move(attempts).Simulate();
}

}  // namespace heddle
