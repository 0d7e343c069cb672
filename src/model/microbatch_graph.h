// The training step of a part of the batch, as a Graph of its own.
#pragma once

#include "model/graph.h"

namespace heddle {

// The same ops and tensors, with the same numbers and names, on so many samples. Losses still
// divide by the samples of the whole batch: that is the runtime's affair.
Graph MicrobatchGraph(const Graph& graph, int64_t rows);

}  // namespace heddle
