// Orders of a synchronous pipeline with S stages and M microbatches. Time runs to the right; the
// first of three stages, M = 4, B twice as long as F:
//
//   GPipe   F0 F1 F2 F3                B3 …     all forwards, then all backwards
//   1F1B    F0 F1 F2       B0 F3 B1 …           backward as soon as it can be
//
// 1F1B keeps S - s microbatches in flight at stage s (counted from 0) instead of M.
#pragma once

#include <vector>

#include "program/plan/order_text.h"

namespace heddle {

// One order per stage, the first stage first.
std::vector<WorkOrder> GpipeOrders(int stages, int microbatches);
std::vector<WorkOrder> OneForwardOneBackward(int stages, int microbatches);

// Interleaved 1F1B (Narayanan et al. 2021): stage s holds chunks s, s + S, s + 2S, … of the layers.
// Forwards and backwards go through the chunks in groups of S microbatches; the warm-up of stage s
// is 2 (S - s - 1) + (chunks - 1) S forwards.
// REQUIRES: microbatches is a multiple of stages.
std::vector<WorkOrder> InterleavedOrders(int stages, int chunks, int microbatches);

}  // namespace heddle
