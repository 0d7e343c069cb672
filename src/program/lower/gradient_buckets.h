// Gradient buckets: which weight gradients are summed together, and by whom.
//
// A parameter's group is every device that holds it: the replicas of a stage, those of other
// pipelines, and both stages of a tied weight. Parameters of one group are put into buckets of at
// least the given size in the order in which backward finishes them (last layer first), so that a
// bucket's all-reduce can start while backward goes on.
#pragma once

#include <string>
#include <vector>

#include "model/graph.h"
#include "program/plan/plan.h"

namespace heddle {

struct GradientBucket {
  std::vector<int32_t> group;       // devices, as numbered in the Program, ascending
  std::vector<int32_t> parameters;  // indices into graph.parameters(), last layer first
  int32_t lowest_layer = 0;         // the last one backward reaches
  int32_t group_id = 0;             // the same for the same group
};

// holders[p]: ascending device numbers that hold parameter p.
std::vector<GradientBucket> MakeBuckets(const Graph& graph,
                                        const std::vector<std::vector<int32_t>>& holders,
                                        Bytes least);

}  // namespace heddle
