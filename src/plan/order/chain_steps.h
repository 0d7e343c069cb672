// The steps of one microbatch through a pipeline as work for machines, for bounds and exact orders:
//
//   F0 → message → F1 → I1 → message → I0        and I1 → W1, I0 → W0
//
// Microbatches are all alike, so that some best schedule does every step in the order of the
// microbatches: give the k-th start of each step to microbatch k.
#pragma once

#include <vector>

#include "plan/order/pipe_shape.h"

namespace heddle {

struct ChainStep {
  double seconds = 0;
  int machine = 0;  // stages first, then channels
  int before = -1;  // the step it needs; -1: none
  bool message = false;
  WorkKind kind = WorkKind::kForward;  // of work
  int place = 0;                       // of work
};

// Each step after the one it needs; messages that take no time are left out. Backward is in two
// parts where the shape allows it.
std::vector<ChainStep> ChainSteps(const PipeShape& shape);

int MachineCount(const PipeShape& shape);

}  // namespace heddle
