#include <algorithm>
#include <set>

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

// Costs of a microbatch of `rows` samples on a worker's devices.
WorkerCosts CostsOf(const Planning& planning, const LayerSeconds& seconds, int64_t rows,
                    const VirtualWorker& worker) {
  WorkerCosts costs;
  for (size_t s = 0; s < worker.size(); ++s) {
    const int type = planning.cluster->device(DeviceId{worker[s]}).type;
    std::vector<double> stage;
    for (int l = 0; l < planning.chain.size(); ++l) stage.push_back(seconds.Of(type, l, l));
    costs.seconds.push_back(std::move(stage));
    if (s == 0) continue;
    costs.bandwidth.push_back(
        planning.cluster->RouteBetween(DeviceId{worker[s - 1]}, DeviceId{worker[s]})
            .bandwidth.value);
  }
  for (const Cut& cut : planning.chain.cuts) {
    costs.forward_bytes.push_back(static_cast<double>((cut.forward_bytes * rows).value));
    costs.backward_bytes.push_back(static_cast<double>((cut.backward_bytes * rows).value));
  }
  return costs;
}

struct Candidate {
  Plan plan;
  double estimate = 0;  // of the slowest worker: its slowest stage for every microbatch, and fill
  double bound = 0;     // some worker computes at least so long
};

// One pipeline per worker, microbatches dealt in equal numbers.
Candidate MakeCandidate(const Planning& planning, const std::vector<VirtualWorker>& workers,
                        int64_t microbatches) {
  Candidate candidate{planning.Blank("hetpipe", "1f1b"), 0, 0};
  Plan& plan = candidate.plan;
  plan.microbatches = microbatches;
  const int64_t rows = std::max<int64_t>(1, planning.options.batch / microbatches);
  const LayerSeconds seconds(planning, rows);
  for (size_t w = 0; w < workers.size(); ++w) {
    const VirtualWorker& worker = workers[w];
    std::vector<int32_t> mine;
    for (size_t m = w; m < static_cast<size_t>(microbatches); m += workers.size()) {
      mine.push_back(static_cast<int32_t>(m));
    }
    const WorkerCosts costs = CostsOf(planning, seconds, rows, worker);
    const std::vector<LayerRun> runs = PartitionWorker(costs);
    const auto count = static_cast<double>(mine.size());
    std::vector<StageChoice> stages;
    double slowest = 0;
    for (size_t s = 0; s < runs.size(); ++s) {
      const auto [first, last] = runs[s];
      stages.push_back({runs[s], {worker[s]}});
      slowest = std::max(slowest, WorkerStageSeconds(costs, static_cast<int>(s), first, last));
      const int type = planning.cluster->device(DeviceId{worker[s]}).type;
      candidate.bound = std::max(candidate.bound, count * seconds.Of(type, first, last));
    }
    const double cycles = count + static_cast<double>(runs.size()) - 1;
    candidate.estimate = std::max(candidate.estimate, cycles * slowest);
    plan.pipelines.push_back(EarlyBackward(planning, stages, mine, /*depth=*/1));
  }
  return candidate;
}

// Of all workers together: from half as many per worker as it has stages to four times as many.
std::vector<int64_t> CountsFor(const Planning& planning, int64_t workers, int64_t stages) {
  if (planning.options.microbatches) {
    const int64_t given = *planning.options.microbatches;
    return given >= workers ? std::vector<int64_t>{given} : std::vector<int64_t>{};
  }
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= 4 * stages && m * workers <= planning.options.batch; m *= 2) {
    if (2 * m >= stages || 2 * m * workers > planning.options.batch) counts.push_back(m * workers);
  }
  return counts;
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

Result<Plan> PlanHetPipe(const Planning& planning) {
  Attempts attempts(planning);
  for (const int workers : WorkerCounts(*planning.cluster)) {
    for (const std::vector<VirtualWorker>& allocation : Allocations(planning, workers)) {
      const auto stages = static_cast<int64_t>(allocation[0].size());
      for (const int64_t m : CountsFor(planning, workers, stages)) {
        Candidate candidate = MakeCandidate(planning, allocation, m);
        attempts.Add(std::move(candidate.plan), candidate.estimate, candidate.bound);
      }
    }
  }
  return std::move(attempts).Simulate();
}

}  // namespace heddle
