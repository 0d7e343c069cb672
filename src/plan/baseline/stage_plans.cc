#include "plan/baseline/stage_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cost/network_cost.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

// Simulations of large clusters take seconds: so many devices are simulated in all, in four plans
// at least.
constexpr size_t kSimulatedDevices = 4096;

double ParameterBytes(const Planning& planning, const ChainLayer& layer) {
  double bytes = 0;
  for (const int32_t p : layer.parameters) {
    const Parameter& parameter = planning.graph.parameters()[static_cast<size_t>(p)];
    bytes += static_cast<double>(planning.graph.tensor(parameter.tensor).bytes().value);
  }
  return bytes;
}

WorkOrder EarlyBackwardOrder(const std::vector<int32_t>& microbatches, size_t warm_up) {
  WorkOrder order;
  for (size_t k = 0; k < microbatches.size() + warm_up; ++k) {
    if (k < microbatches.size()) order.push_back({WorkKind::kForward, 0, microbatches[k]});
    if (k >= warm_up) order.push_back({WorkKind::kBackward, 0, microbatches[k - warm_up]});
  }
  return order;
}

// The devices that sum gradients with each other: all that hold the same parameter.
std::set<std::vector<DeviceId>> ReplicaGroups(const Planning& planning, const Plan& plan) {
  std::vector<std::vector<DeviceId>> holders(static_cast<size_t>(planning.chain.size()));
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (int l = stage.chunks[0].first; l <= stage.chunks[0].last; ++l) {
        for (const std::string& device : stage.devices) {
          holders[static_cast<size_t>(l)].push_back(*planning.cluster->FindDevice(device));
        }
      }
    }
  }
  std::set<std::vector<DeviceId>> groups;
  for (const Parameter& parameter : planning.graph.parameters()) {
    std::set<DeviceId> group;
    for (const LayerId layer : parameter.layers) {
      const auto& more = holders[static_cast<size_t>(layer.value)];
      group.insert(more.begin(), more.end());
    }
    if (group.size() > 1) groups.insert({group.begin(), group.end()});
  }
  return groups;
}

// Sets the algorithm that sums a bucket soonest, of those that every group of replicas can use.
void ChooseAllReduce(const Planning& planning, Plan& plan) {
  const NetworkCost network(*planning.cluster);
  const std::vector<Bytes> sizes = {plan.bucket};
  double least = std::numeric_limits<double>::infinity();
  const auto groups = ReplicaGroups(planning, plan);
  for (const auto algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                               CollectiveAlgorithm::kHierarchical}) {
    double slowest = 0;
    for (const std::vector<DeviceId>& group : groups) {
      const CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, algorithm, 0};
      slowest =
          std::max(slowest, network.Supports(request) ? network.Collective(request).seconds.value
                                                      : std::numeric_limits<double>::infinity());
    }
    if (slowest >= least) continue;
    least = slowest;
    plan.all_reduce = algorithm;
  }
}

// Everything that tells one attempt from another.
std::string KeyOf(const Plan& plan) {
  std::string key = fmt::format("{}", plan.microbatches);
  for (const PipelinePlan& pipeline : plan.pipelines) {
    key += " |";
    for (const StagePlan& stage : pipeline.stages) {
      key += fmt::format(" {}-{} {}", stage.chunks[0].first, stage.chunks[0].last,
                         PrintOrder(stage.order));
      for (const std::string& device : stage.devices) key += " " + device;
    }
  }
  return key;
}

}  // namespace

CutStates ChainStates(const Planning& planning, int64_t rows, double scale,
                      double parameter_scale) {
  const LayerSeconds seconds(planning, rows);
  const std::vector<Device>& devices = planning.cluster->devices();
  std::vector<double> weight(planning.cluster->types().size(), 0);
  for (const Device& device : devices) {
    weight[static_cast<size_t>(device.type)] += 1.0 / static_cast<double>(devices.size());
  }
  std::vector<CutState> states;
  CutState sum;
  for (int l = 0; l < planning.chain.size(); ++l) {
    const auto at = static_cast<size_t>(l);
    for (size_t type = 0; type < weight.size(); ++type) {
      sum.seconds += scale * weight[type] * seconds.Of(static_cast<int>(type), l, l);
    }
    sum.parameter_bytes += parameter_scale * ParameterBytes(planning, planning.chain.layers[at]);
    sum.crossing_bytes = 0;
    if (at < planning.chain.cuts.size()) {
      const Cut& cut = planning.chain.cuts[at];
      const auto bytes = static_cast<double>((cut.forward_bytes + cut.backward_bytes).value);
      sum.crossing_bytes = scale * static_cast<double>(rows) * bytes / 2;
    }
    ++sum.layers;
    states.push_back(sum);
  }
  return CutStates::OfChain(std::move(states));
}

std::vector<int64_t> MicrobatchCounts(const Planning& planning) {
  if (planning.options.microbatches) return {*planning.options.microbatches};
  const int64_t most =
      std::min<int64_t>(4 * planning.cluster->device_count(), planning.options.batch);
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= most; m *= 2) counts.push_back(m);
  return counts;
}

PipelinePlan EarlyBackward(const Planning& planning, const std::vector<StageChoice>& stages,
                           const std::vector<int32_t>& microbatches, int depth) {
  PipelinePlan pipeline;
  for (size_t s = 0; s < stages.size(); ++s) {
    StagePlan stage;
    stage.chunks = {stages[s].layers};
    for (const int device : stages[s].devices) {
      stage.devices.push_back(planning.cluster->device(DeviceId{device}).name);
    }
    stage.shares.assign(stage.devices.size(), 1);
    const size_t warm_up = static_cast<size_t>(depth) * (stages.size() - 1 - s);
    stage.order = EarlyBackwardOrder(microbatches, std::min(warm_up, microbatches.size()));
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

void Attempts::Add(Plan plan, double estimate, double bound) {
  attempts_.push_back({std::move(plan), estimate, bound});
}

Status Attempts::Try(Plan plan) {
  HEDDLE_ASSIGN(const Best::Outcome outcome, best_.Try(plan));
  if (outcome != Best::Outcome::kDoesNotFit) return Ok();
  for (PipelinePlan& pipeline : plan.pipelines) {
    for (StagePlan& stage : pipeline.stages) stage.recompute = true;
  }
  HEDDLE_RETURN_IF_ERROR(best_.Try(std::move(plan)));
  return Ok();
}

Result<Plan> Attempts::Simulate() && {
  std::stable_sort(attempts_.begin(), attempts_.end(),
                   [](const Attempt& a, const Attempt& b) { return a.estimate < b.estimate; });
  const size_t most = std::max<size_t>(
      4, kSimulatedDevices / static_cast<size_t>(planning_.cluster->device_count()));
  std::set<std::string> tried;
  size_t left_out = 0;
  for (Attempt& attempt : attempts_) {
    if (attempt.bound >= best_.seconds()) continue;
    if (!tried.insert(KeyOf(attempt.plan)).second) continue;
    // Where nothing fits yet it goes on: the estimates know no memory.
    if (tried.size() > most && std::isfinite(best_.seconds())) {
      ++left_out;
      continue;
    }
    ChooseAllReduce(planning_, attempt.plan);
    HEDDLE_RETURN_IF_ERROR(Try(std::move(attempt.plan)));
  }
  if (left_out > 0) {
    best_.Note(fmt::format("{} candidates that it thinks slower were not simulated", left_out));
  }
  return std::move(best_).Take();
}

}  // namespace heddle
