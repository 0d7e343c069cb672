#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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

StageDecision StagesOf(const Planning& planning, const DappleDecision& decision, int64_t m,
                       int depth) {
  StageDecision stages{{{}}, m, depth};
  NodeCounts used(planning.cluster->nodes().size(), 0);
  for (const DappleStage& stage : decision.stages) {
    StageChoice choice{{stage.begin, stage.end - 1}, {}};
    for (size_t n = 0; n < used.size(); ++n) {
      const std::vector<DeviceId>& devices = planning.cluster->nodes()[n].devices;
      for (int k = 0; k < stage.devices[n]; ++k) {
        choice.devices.push_back(devices[static_cast<size_t>(used[n]++)].value);
      }
    }
    stages.pipelines[0].push_back(std::move(choice));
  }
  return stages;
}

// But for rounding: a profile's seconds are in proportion to the samples.
bool Alike(const CutStates& a, const CutStates& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-12 * std::abs(y); };
  for (int k = 0; k < a.size(); ++k) {
    const bool same = near(a[k].seconds, b[k].seconds) &&
                      near(a[k].parameter_bytes, b[k].parameter_bytes) &&
                      near(a[k].crossing_bytes, b[k].crossing_bytes);
    if (!same) return false;
  }
  return true;
}

}  // namespace

Status TryDapple(const LayerTable& table, const std::string& strategy, Best& best) {
  const Planning& planning = table.planning();
  DappleInput input{nullptr, {}, NetworkOf(planning), nullptr};
  for (const Node& node : planning.cluster->nodes()) {
    input.nodes.push_back(static_cast<int>(node.devices.size()));
  }
  const int64_t batch = planning.request.batch;
  Attempts attempts(table, strategy, best);
  // By the samples that a device gets of a microbatch: what the search decides does not depend on
  // their number but through these.
  std::map<int64_t, CutStates> states;
  std::map<int64_t, StraightPipelines> straight;  // by the rows that were the first of their like
  std::map<int64_t, std::vector<DappleDecision>> decisions;
  const auto decide = [&](int64_t rows) -> const std::vector<DappleDecision>& {
    const auto [found, is_new] = decisions.try_emplace(rows);
    if (is_new) {
      const double scale = static_cast<double>(batch) / static_cast<double>(rows);
      input.states = &states.emplace(rows, ChainStates(table, rows, scale, 1)).first->second;
      int64_t like = rows;
      for (const auto& [other, unused] : straight) {
        if (Alike(states.at(other), *input.states)) like = other;
      }
      input.straight = &straight[like];
      found->second = SearchDapple(input, batch, rows);
    }
    return found->second;
  };
  const auto propose = [&](int64_t m) {
    for (int64_t rows = 1; rows <= std::max<int64_t>(1, batch / m); rows *= 2) {
      if (planning.deadline.passed()) return;
      size_t proposed = 0;
      for (DappleDecision decision : decide(rows)) {
        // Its groups of replicas have about so many rows each.
        const int64_t whole = decision.groups * rows * m;
        if (2 * whole <= batch || whole >= 2 * batch || proposed == kSimulated) continue;
        ++proposed;
        decision.microbatches = m;
        input.states = &states.at(rows);
        const double estimate = input.states->back().seconds / DappleSpeedup(input, decision);
        for (const int depth : {1, 2}) {
          if (depth > 1 && decision.stages.size() == 1) continue;
          attempts.Add(StagesOf(planning, decision, m, depth),
                       depth == 1 ? "early-backward" : "early-backward-eager", estimate);
        }
      }
    }
  };
  return attempts.Run(propose);
}

Result<Plan> PlanDapple(const Planning& planning) {
  Best best(planning);
  HEDDLE_RETURN_IF_ERROR(TryDapple(LayerTable(planning), "dapple", best));
  return std::move(best).Take();
}

}  // namespace heddle
