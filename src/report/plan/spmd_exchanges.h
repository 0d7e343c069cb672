// The exchanges of an SPMD plan, one by one: which tensor, of which layer, among whom, how long.
#pragma once

#include <vector>

#include "cluster/cluster.h"
#include "program/plan/plan.h"
#include "program/plan/spmd_conversion.h"

namespace heddle {

struct SpmdExchange {
  const SpmdStep* step;  // of the plan
  SpmdConversion conversion;
  int32_t layer = 0;   // that makes the tensor
  Bytes bytes;         // of the whole tensor, of one microbatch
  size_t groups = 1;   // that do it at the same time
  size_t members = 1;  // of each
  Seconds alone;       // of the first group, on an idle network
};

// In the plan's order. REQUIRES: plan.spmd.
std::vector<SpmdExchange> ExchangesOf(const Plan& plan, const Graph& graph, const Cluster& cluster);

// "all 8", "4 in a node", "across 2 nodes".
std::string GroupText(const SpmdExchange& exchange);

// By tensor: the layer that makes it; of data and parameters, the first that reads it.
std::vector<int32_t> LayersOfTensors(const Graph& graph);

Json ExchangesJson(const std::vector<SpmdExchange>& exchanges, const Graph& graph);

}  // namespace heddle
