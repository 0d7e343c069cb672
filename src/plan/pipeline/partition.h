// Partition, replication and mapping (PRM): which layers form a stage, on how many and which
// devices, by a dynamic program over suffixes.
//
// A state is a first layer, the range of devices of the stage that begins there, and the number of
// stages from there to the end (the depth, which tells how many microbatches are in flight). Its
// value is what a suffix of the pipeline costs at best:
//
//   bottleneck   the most that any stage or channel takes for one microbatch
//   all_reduce   the longest all-reduce of a replicated stage
//
// The first alone does not decide: a plan takes about (M + 4 n - 4) bottleneck + all_reduce. So
// every state keeps all pairs of which none is worse than another in both. Devices between two
// stages may be left out.
#pragma once

#include <vector>

#include "plan/pipeline/stage_costs.h"

namespace heddle {

struct PartitionStage {
  int first = 0;  // layers first..end-1
  int end = 0;
  DeviceRange devices;
  bool recompute = false;
  auto operator<=>(const PartitionStage&) const = default;
};

struct Partition {
  std::vector<PartitionStage> stages;
  double bottleneck = 0;
  double all_reduce = 0;

  // (M + 4 n - 4) bottleneck + all_reduce: what the list order takes at most.
  double Score(int64_t microbatches) const {
    return (static_cast<double>(microbatches) + 4.0 * static_cast<double>(stages.size()) - 4) *
               bottleneck +
           all_reduce;
  }
};

struct PartitionOptions {
  int most_stages = 1 << 20;
  std::vector<int> counts;  // replicas a stage may have; empty: any
  int most_skipped = 0;     // devices left out between two stages
  // Stages of at least `node` devices begin and hold whole nodes of so many, and smaller ones stay
  // inside a node; 1: no such rule.
  int node = 1;
  bool equal_parts = false;  // smaller ones are then halves, quarters, … of a node
  // Of the cuts between layers at most so many are used: of each stretch of about equal work the
  // one that the fewest bytes cross. 0: all.
  int most_cuts = 0;
  // Anything whose M * bottleneck is above this is not wanted.
  double limit = 1e300;
  // A shorter all-reduce that saves no more than this part of the limit is not worth a place.
  double tolerance = 0;
};

// For every number of stages 1, 2, … that is possible: the partitions of which none is worse than
// another of the same number in both bottleneck and all_reduce.
std::vector<std::vector<Partition>> FindPartitions(const StageCosts& costs,
                                                   const PartitionOptions& options);

}  // namespace heddle
