// Orders that repeat one block: every microbatch goes its way down and up like the one before it,
// an interval later (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"). How long the
// way takes decides how many microbatches are in flight, that is, the memory; pauses on the way
// decide how well the ways of different microbatches fit between each other. Four stages, V-shaped,
// no pauses, all times 1 (F' and I' of the second chunk; the weight parts fill what is left):
//
//   stage 0   F  .  .  .  .  .  .  F' I' .  .  .  .  .  .  I
//   stage 1      F  .  .  .  .  F' .  .  I' .  .  .  .  I
//   stage 2         F  .  .  F' .  .  .  .  I' .  .  I
//   stage 3            F  F' .  .  .  .  .  .  I' I
#pragma once

#include <optional>
#include <vector>

#include "plan/order/order_times.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// Pauses between places, as parts of the interval. A leg is one passage through all stages: there
// is one each way in a straight pipeline, two in a V-shaped one.
struct BlockPauses {
  double first_forward = 0;
  double later_forward = 0;
  double early_backward = 0;  // on the ways back of the later legs
  double last_backward = 0;
};

// The work of a microbatch goes by its time in the repeated block; weight parts are done when a
// stage would wait, for a message or for memory. Nothing if the stages would wait for ever.
// REQUIRES: every leg passes all stages: the layout is straight, interleaved or V-shaped.
// Nothing, too, as soon as it is clear that they do not end within the limit.
std::optional<TimedOrders> BlockOrders(const PipeShape& shape, const BlockPauses& pauses,
                                       double limit = std::numeric_limits<double>::infinity());

}  // namespace heddle
