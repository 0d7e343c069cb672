// The weights and states that a resumed run begins with.
#pragma once

#include <string>

#include "base/result.h"
#include "model/graph.h"
#include "run/store/checkpoint.h"

namespace heddle {

// `resume` is a checkpoint, or a run, whose last one is meant. Every weight and state of the model
// must be there, in its shape.
Result<Checkpoint> LoadResumedCheckpoint(const std::string& resume, const Graph& graph);

}  // namespace heddle
