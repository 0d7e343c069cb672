// PartitionBound: a relaxed partition program. No pipeline of one run of layers per stage, with any
// replicas, mapping and order, alone or as several alike side by side, is faster.
//
// Could an iteration take only T? A dynamic program over layers and devices looks for stages such
// that, with r devices for layers l..l'-1 of p pipelines, each with N samples in M microbatches of
// R, c the least seconds of a sample on the fastest device, and W without gradients of weights:
//
//   N c(l..l') / r <= T                          the stage's own work
//   way(l) + N W(l..l') / r <= T                 after the first microbatch came to it
//   (M - 1) R c(l..l') / r + sums <= T           gradients are complete only with the last one
//   N bytes(l') / out(r) <= T                    what r devices can send at most
//
// where sums = 2 (g - 1) P / out(g), for P bytes of gradients over g = p r devices, is what any
// all-reduce has to move, between devices and, where no node has room for g, between nodes. The
// state keeps the shortest way, with messages between stages of one device; memory, contention,
// unequal speeds and which devices they are, are left out.
//
// Pipelines whose devices hold two runs of layers are bounded by their work, the sums of gradients,
// and one microbatch's way with its messages.
#pragma once

#include "base/units.h"
#include "plan/planning.h"

namespace heddle {

// At most `limit`, the time of a plan that is known; never below `start`, a bound that is known.
Seconds PartitionBound(const Planning& planning, Seconds start, Seconds limit);

}  // namespace heddle
