// The whole tensors of a run, put together from the parts that its devices hold.
#pragma once

#include "base/result.h"
#include "program/program.h"
#include "run/rank_messages.h"
#include "run/train/tensor_store.h"

namespace heddle {

// Of a role, at the first rank; nothing at the others. Of several that hold a part the first sends.
// All ranks call it at the same time.
Result<HeldTensors> GatherTensors(Role role, const TensorStore& store, const Program& program,
                                  const Graph& graph, RankMessages& messages);

}  // namespace heddle
