// Unequal pipelines side by side: each group of devices trains the whole model with a partition, an
// order and a number of microbatches of its own, and all sum their gradients.
//
//   a100 a100 | a100 a100    31 of 64 microbatches, two stages          no activations on the slow
//   v100 v100 v100           20, three stages                          wires between the groups,
//   v100 v100                13, one stage of two replicas              only sums
//
// The files of a DeviceLine are pipelines side by side, too, but alike in everything. Here devices
// are parted as they are connected or typed, and microbatches are dealt so that all are done at
// about the same time.
#pragma once

#include <string>

#include "plan/pipeline/layer_table.h"
#include "plan/planning.h"

namespace heddle {

// Gives the most promising to the best, unless it is clear that they are no faster.
Status TrySideBySide(const LayerTable& table, const std::string& strategy, Best& best);

}  // namespace heddle
