// A plan's model as a BlockNetwork, its stages as blocks.
//
//   HEDDLE_ASSIGN(const PlanNetwork made, NetworkOfPlan(plan));
//   made.network->Forward(0, weights, *pass);
//
// The arithmetic is that of the reference that `verify` trains (graph_ops.h), in fp64, on synthetic
// samples; with seed k weights start as those of a run of seed k + 1. A pass is one microbatch of
// the plan.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "run/block_network.h"

namespace heddle {

struct PlanNetwork {
  std::unique_ptr<Graph> graph;  // of a microbatch, with plain SGD
  std::vector<LayerRun> stages;
  std::unique_ptr<BlockNetwork> network;
};

// Bad input: a plan that is no line of stages with weights of their own, or a model without
// arithmetic.
Result<PlanNetwork> NetworkOfPlan(const Plan& plan);

}  // namespace heddle
