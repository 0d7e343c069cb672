// Graphs with skip connections, built by hand.
#pragma once

#include "model/autodiff.h"
#include "model/graph_builder.h"

namespace heddle {

// Square layers of `width`: layer l computes its product of the layer before and adds the outputs
// of the earlier layers listed for it. The last one ends in a loss.
//
//   SkipGraph({{}, {}, {}, {0}})        layer 0 ──► 1 ──► 2 ──► 3
//                                             └───────────────►+
inline Graph SkipGraph(const std::vector<std::vector<int>>& skips, int64_t batch = 4,
                       int64_t width = 8, Optimizer optimizer = Optimizer::kSgd) {
  GraphBuilder g(batch, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {width});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  std::vector<TensorId> outputs;
  for (size_t l = 0; l < skips.size(); ++l) {
    const std::string name = "l" + std::to_string(l);
    g.BeginLayer(name);
    x = g.Einsum(name, "bk,kn->bn", x, g.Parameter(name + ".w", {width, width}));
    for (const int from : skips[l]) {
      x = g.Add(name + ".add" + std::to_string(from), x, outputs[static_cast<size_t>(from)]);
    }
    x = g.Relu(name + ".relu", x);
    outputs.push_back(x);
  }
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {optimizer});
  return g.Finish().value();
}

}  // namespace heddle
