// --sync and --compress where there is nothing to sum.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"

namespace heddle {

// A strategy without replicas sums gradients only of weights that two of its stages use. Where
// there are none, to ask how they are summed is a usage error.
Status RefuseUnusedGradientOptions(const Plan& plan, const Graph& graph);

}  // namespace heddle
