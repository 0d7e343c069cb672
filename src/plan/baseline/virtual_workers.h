// HetPipe's virtual workers (Park et al., ATC 2020): groups of devices of possibly different kinds,
// each a pipeline of its own, data parallel among them. Two nodes of four devices, two workers:
//
//   node partition        {a:0 a:1 a:2 a:3} {b:0 b:1 b:2 b:3}     fast links inside a worker
//   equal distribution    {a:0 a:2 b:0 b:2} {a:1 a:3 b:1 b:3}     every worker has the same mix
#pragma once

#include <vector>

#include "program/plan/plan.h"

namespace heddle {

using VirtualWorker = std::vector<int>;  // devices, in the order of their stages

// Devices by node and by type, in the order of the cluster.
struct WorkerDevices {
  std::vector<int> node;
  std::vector<int> type;
};

// Consecutive devices; the nodes themselves when there are as many workers.
// REQUIRES: 1 <= workers <= devices (for both).
std::vector<VirtualWorker> NodePartition(const WorkerDevices& devices, int workers);
// Devices sorted by type are dealt one after the other.
std::vector<VirtualWorker> EqualDistribution(const WorkerDevices& devices, int workers);

// What the partition of one worker needs.
struct WorkerCosts {
  std::vector<std::vector<double>> seconds;  // [stage][layer], forward and backward
  std::vector<double> forward_bytes;         // across the cut after a layer, per microbatch
  std::vector<double> backward_bytes;
  std::vector<double> bandwidth;  // between stage s and the next, bytes per second
};

// Of stage s on layers first..last: what it computes, and what it waits to receive from both sides.
double WorkerStageSeconds(const WorkerCosts& costs, int stage, int first, int last);

// One run of layers per stage, so that the slowest stage is as fast as can be.
// REQUIRES: at least as many layers as stages, one stage or more.
std::vector<LayerRun> PartitionWorker(const WorkerCosts& costs);

}  // namespace heddle
