// Autodiff: writes the backward pass and the update of a forward graph as explicit ops.
//
// Gradients with respect to inputs (what the previous layer waits for) and with respect to weights
// (what can wait) are separate ops, so that a schedule may run them apart. An activation with
// several consumers sums their contributions in reverse order of use, each `add` in the layer of
// the consumer that adds: a gradient that crosses a layer boundary is then one tensor, the sum of
// everything after it. A parameter's gradient tensor is the sum of its producers.
#pragma once

#include "model/graph_builder.h"

namespace heddle {

struct UpdateOptions {
  Optimizer optimizer = Optimizer::kAdam;
  double clip = 0;  // all gradients are scaled so that their common norm is at most this; 0: never
};

// REQUIRES: the last op of `builder` computes a loss or is opaque (its output then counts as
// loss). Appends backward and update ops. With a 2-byte dtype the optimizer keeps f32 master
// weights as state.
void AddTraining(GraphBuilder& builder, const UpdateOptions& options);

}  // namespace heddle
