// A candidate of SPP's search: a partition for a device order and a number of microbatches, on its
// way to a Plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/order/pipe_shape.h"
#include "plan/pipeline/partition.h"

namespace heddle {

struct Candidate {
  std::shared_ptr<const StageCosts> costs;
  // Chunks along the layers; chunk k of stage stage_of[k]. Plain pipelines have one per stage.
  std::vector<PartitionStage> chunks;
  std::vector<int> stage_of;
  int stages = 1;
  std::vector<PipeShape::Cut> cuts;  // between chunks, seconds of messages on shared wires
  double bound = 0;     // no order is faster: all microbatches through the slowest machine
  double estimate = 0;  // with a fill and a drain, and the longest all-reduce
  // As if an order had no other gaps than before a stage's first forward and after the last
  // backward that others wait for, as those with split backwards or two runs per device may.
  double floor = 0;
};

// One stage per run of layers.
Candidate StraightCandidate(std::shared_ptr<const StageCosts> costs, const Partition& partition);

// Two runs per device: along the devices and back (V-shaped), or along them twice (interleaved).
// REQUIRES: at least two layers per device used.
enum class TwoRuns : uint8_t { kVShaped, kInterleaved };
Candidate TwoRunCandidate(std::shared_ptr<const StageCosts> costs, int devices, TwoRuns shape);

// What its order depends on. Memory in bytes.
PipeShape ShapeOf(const Candidate& candidate, bool split);

// When the last gradient is summed, given when each stage's work ends.
double AfterOrder(const Candidate& candidate, const std::vector<double>& ends);

// With the orders, one for each stage.
Plan PlanOf(const Candidate& candidate, const std::string& order_name,
            const std::vector<WorkOrder>& orders);

// "3 stages of 4+2+2 devices, 16 microbatches".
std::string Describe(const Candidate& candidate);

}  // namespace heddle
