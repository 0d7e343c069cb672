// The weights and states that a resumed run begins with.
#pragma once

#include <string>

#include "base/result.h"
#include "model/graph.h"
#include "run/store/checkpoint.h"
#include "run/torch/torch_executor.h"

namespace heddle {

struct ResumedValues {
  CheckpointInfo info;
  TensorsByName tensors;  // by name, in the type asked for
};

// `resume` is a checkpoint, or a run, whose last one is meant. Every weight and state of the model
// must be there, in its shape.
Result<ResumedValues> LoadResumedValues(const std::string& resume, const Graph& graph, DType dtype);

}  // namespace heddle
