// Orders of a synchronous pipeline with S stages and M microbatches that need no times. Time runs
// to the right; the first of three stages, M = 4, B twice as long as F:
//
//   GPipe   F0 F1 F2 F3                B3 …     all forwards, then all backwards
//   1F1B    F0 F1 F2       B0 F3 B1 …           backward as soon as it can be
//
// 1F1B keeps S - s microbatches in flight at stage s (counted from 0) instead of M. Where messages
// take time that is too few: backward of the first comes back when the stage has long been idle.
// Eager 1F1B keeps 2 (S - s) - 1, and the list order of SPP 4 (S - s - 1).
#pragma once

#include <vector>

#include "program/plan/order_text.h"

namespace heddle {

// One order per stage, the first stage first.
std::vector<WorkOrder> GpipeOrders(int stages, int microbatches);
std::vector<WorkOrder> OneForwardOneBackward(int stages, int microbatches);

// Forwards until `in_flight[s]` microbatches are in flight, then a backward and a forward in turn.
// A stage gets no more microbatches than the one before it lets pass, so that its number counts for
// the stages after it too.
// REQUIRES: in_flight[s] >= 1.
std::vector<WorkOrder> WarmUpOrders(const std::vector<int>& in_flight, int microbatches);
std::vector<int> EagerInFlight(int stages);

// PE's lists: in cycle t microbatch m is at block t - m of its chain of 4 S - 3 blocks (stages and
// channels down, the last stage's forward and backward as one, and up again); each list goes by
// cycle, the oldest microbatch first among equals. Stage s has forwards at block 2 s and backwards
// at block 4 (S - 1) - 2 s, so that after 4 (S - 1 - s) forwards each cycle has one backward, of
// the older microbatch, and one forward: a warm-up order.
std::vector<int> ListInFlight(int stages);

// Interleaved 1F1B (Narayanan et al. 2021): stage s holds chunks s, s + S, s + 2S, … of the layers.
// Forwards and backwards go through the chunks in groups of S microbatches; the warm-up of stage s
// is 2 (S - s - 1) + (chunks - 1) S forwards.
// REQUIRES: microbatches is a multiple of stages.
std::vector<WorkOrder> InterleavedOrders(int stages, int chunks, int microbatches);

}  // namespace heddle
