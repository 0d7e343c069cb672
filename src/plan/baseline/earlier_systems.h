// Planners of earlier systems, on heddle's figures for the model and cluster at hand. Each tunes
// its number of microbatches, and recomputes activations where that makes it fit. docs/baselines.md
// tells what of their authors' results is reproduced, and where these deviate.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/pipeline/layer_table.h"
#include "plan/planning.h"

namespace heddle {

// PipeDream's optimizer for a flat network (pipedream_partition.h), run with a flush: 1F1B.
Result<Plan> PlanPipeDream(const Planning& planning);

// DAPPLE's search over stages and placements (dapple_search.h), early backward.
Result<Plan> PlanDapple(const Planning& planning);

// HetPipe's virtual workers (virtual_workers.h), each a pipeline; all gradients are summed over
// the workers once per iteration.
Result<Plan> PlanHetPipe(const Planning& planning);

// The same as candidates: afterwards the best is no slower than the plan of the above would be.
Status TryPipeDream(const LayerTable& table, const std::string& strategy, Best& best);
Status TryDapple(const LayerTable& table, const std::string& strategy, Best& best);
Status TryHetPipe(const LayerTable& table, const std::string& strategy, Best& best);

}  // namespace heddle
