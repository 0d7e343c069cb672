// Alike: which tensors and ops of a model are of one kind. Those of one kind differ in their names
// alone: on any mesh they have the same choices at the same cost. Found once for a model, for all
// meshes and ratios that are tried.
#pragma once

#include <memory>
#include <vector>

#include "model/graph.h"

namespace heddle {

struct Alike {
  std::vector<int> tensors, ops;     // the kind of each
  std::vector<TensorId> one_tensor;  // of each kind
  std::vector<OpId> one_op;          // likewise
  std::vector<bool> saved;           // by tensor: made in forward, read in backward

  static std::shared_ptr<const Alike> Of(const Graph& graph);
};

// Whether an operand's layout is to be chosen. Inputs are there in any, and an update reads and
// writes the parameter and the optimizer's state in the layout of storage, which its output stands
// for.
bool HasLayout(const Graph& graph, const Op& op, const Operand& operand, bool output);

}  // namespace heddle
