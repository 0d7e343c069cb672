#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/stage_plans.h"
#include "plan/baseline/virtual_workers.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

WorkerDevices DevicesOf(const Cluster& cluster) {
  WorkerDevices devices;
  for (const Device& device : cluster.devices()) {
    devices.node.push_back(device.node);
    devices.type.push_back(device.type);
  }
  return devices;
}

// Divisors of the number of devices, as many as nodes, as many as devices of a node.
std::set<int> WorkerCounts(const Cluster& cluster) {
  const int devices = cluster.device_count();
  std::set<int> counts = {1, static_cast<int>(cluster.nodes().size())};
  for (const Node& node : cluster.nodes()) counts.insert(static_cast<int>(node.devices.size()));
  for (int v = 1; v < devices; ++v) {
    if (devices % v == 0) counts.insert(v);
  }
  counts.erase(0);
  return counts;
}

double BandwidthBetween(const Planning& planning, int a, int b) {
  return planning.cluster->RouteBetween(DeviceId{a}, DeviceId{b}).bandwidth.value;
}

// Costs of a microbatch of `rows` samples on a worker's devices.
WorkerCosts CostsOf(const Planning& planning, const LayerSeconds& seconds, int64_t rows,
                    const VirtualWorker& worker) {
  WorkerCosts costs;
  for (size_t s = 0; s < worker.size(); ++s) {
    const int type = planning.cluster->device(DeviceId{worker[s]}).type;
    std::vector<double> stage;
    for (int l = 0; l < planning.chain.size(); ++l) stage.push_back(seconds.Of(type, l, l));
    costs.seconds.push_back(std::move(stage));
    if (s > 0) costs.bandwidth.push_back(BandwidthBetween(planning, worker[s - 1], worker[s]));
  }
  for (const Cut& cut : planning.chain.cuts) {
    costs.forward_bytes.push_back(static_cast<double>((cut.forward_bytes * rows).value));
    costs.backward_bytes.push_back(static_cast<double>((cut.backward_bytes * rows).value));
  }
  return costs;
}

struct Candidate {
  StageDecision decision;
  double estimate = 0;  // of the slowest worker: its slowest stage for every microbatch, and fill
};

struct WorkerPartition {
  std::vector<LayerRun> runs;
  double slowest = 0;  // seconds of a stage for a microbatch
};

// Workers of the same devices with the same links between them have the same partition.
using Partitions = std::map<std::pair<std::vector<int>, std::vector<double>>, WorkerPartition>;

const WorkerPartition& PartitionOf(const Planning& planning, const LayerSeconds& seconds,
                                   int64_t rows, const VirtualWorker& worker, Partitions& known) {
  std::vector<int> types;
  std::vector<double> links;
  for (size_t s = 0; s < worker.size(); ++s) {
    types.push_back(planning.cluster->device(DeviceId{worker[s]}).type);
    if (s > 0) links.push_back(BandwidthBetween(planning, worker[s - 1], worker[s]));
  }
  const auto [found, is_new] = known.try_emplace({std::move(types), std::move(links)});
  WorkerPartition& partition = found->second;
  if (!is_new) return partition;
  const WorkerCosts costs = CostsOf(planning, seconds, rows, worker);
  partition.runs = PartitionWorker(costs);
  for (size_t s = 0; s < partition.runs.size(); ++s) {
    const auto [first, last] = partition.runs[s];
    partition.slowest =
        std::max(partition.slowest, WorkerStageSeconds(costs, static_cast<int>(s), first, last));
  }
  return partition;
}

// One pipeline per worker, microbatches dealt in equal numbers. `known`: partitions of as many
// samples.
Candidate MakeCandidate(const Planning& planning, const std::vector<VirtualWorker>& workers,
                        const LayerSeconds& seconds, int64_t microbatches, Partitions& known) {
  Candidate candidate{{{}, microbatches, /*depth=*/1}, 0};
  const int64_t rows = std::max<int64_t>(1, planning.request.batch / microbatches);
  const auto all = std::ssize(workers);
  for (size_t w = 0; w < workers.size(); ++w) {
    const VirtualWorker& worker = workers[w];
    const auto& [runs, slowest] = PartitionOf(planning, seconds, rows, worker, known);
    std::vector<StageChoice>& stages = candidate.decision.pipelines.emplace_back();
    for (size_t s = 0; s < runs.size(); ++s) stages.push_back({runs[s], {worker[s]}});
    const int64_t mine = (microbatches - static_cast<int64_t>(w) + all - 1) / all;
    const double cycles = static_cast<double>(mine) + static_cast<double>(runs.size()) - 1;
    candidate.estimate = std::max(candidate.estimate, cycles * slowest);
  }
  return candidate;
}

// Both allocations, stages in the order of the devices and in the reverse. Devices beyond the
// number of layers stay idle.
std::vector<std::vector<VirtualWorker>> Allocations(const Planning& planning, int workers) {
  const WorkerDevices devices = DevicesOf(*planning.cluster);
  std::vector<std::vector<VirtualWorker>> all;
  for (std::vector<VirtualWorker> allocation :
       {NodePartition(devices, workers), EqualDistribution(devices, workers)}) {
    for (const bool reversed : {false, true}) {
      std::vector<VirtualWorker> used = allocation;
      for (VirtualWorker& worker : used) {
        if (reversed) std::reverse(worker.begin(), worker.end());
        if (static_cast<int>(worker.size()) > planning.chain.size()) {
          worker.resize(static_cast<size_t>(planning.chain.size()));
        }
      }
      all.push_back(std::move(used));
    }
  }
  return all;
}

}  // namespace

Status TryHetPipe(const LayerTable& table, const std::string& strategy, Best& best) {
  const Planning& planning = table.planning();
  Attempts attempts(table, strategy, best);
  const auto propose = [&](int64_t m) {
    const LayerSeconds& seconds =
        table.SecondsFor(std::max<int64_t>(1, planning.request.batch / m));
    std::map<int64_t, Partitions> partitions;  // by samples of a microbatch
    for (const int workers : WorkerCounts(*planning.cluster)) {
      if (workers > m || planning.deadline.passed()) break;
      std::set<int64_t> counts = {m};
      if (!planning.request.microbatches) counts.insert(m / workers * workers);  // as many for each
      for (const std::vector<VirtualWorker>& allocation : Allocations(planning, workers)) {
        for (const int64_t count : counts) {
          const int64_t rows = std::max<int64_t>(1, planning.request.batch / count);
          Candidate candidate =
              MakeCandidate(planning, allocation, seconds, count, partitions[rows]);
          attempts.Add(std::move(candidate.decision), "1f1b", candidate.estimate);
        }
      }
    }
  };
  return attempts.Run(propose);
}

Result<Plan> PlanHetPipe(const Planning& planning) {
  Best best(planning);
  HEDDLE_RETURN_IF_ERROR(TryHetPipe(LayerTable(planning), "hetpipe", best));
  return std::move(best).Take();
}

}  // namespace heddle
