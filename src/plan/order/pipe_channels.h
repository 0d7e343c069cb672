// The channels of a pipeline: who shares one. Two stages that exchange messages have one channel
// for each direction, or one for both (half duplex), however many of their chunks are neighbours. A
// message that takes no time uses none.
#pragma once

#include <vector>

#include "plan/order/pipe_shape.h"

namespace heddle {

struct PipeChannels {
  explicit PipeChannels(const PipeShape& shape);

  int count = 0;
  std::vector<int> forward;   // by cut; -1: none needed
  std::vector<int> backward;  // by cut
};

}  // namespace heddle
