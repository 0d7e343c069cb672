// What it costs to really execute an update of one block.
//
// PipeDream's update of block s is its part of a microbatch: the forward and the backward of stage
// s. Randomized PipeDream draws block and weights anew for every update, so nothing of a microbatch
// can be shared by updates: it takes the forward of all stages, back through the inputs of those
// above s, and all of the backward of s. With f, i, w the work of a stage's forward and of its
// backward with respect to inputs and to weights:
//
//   PipeDream    mean over s of  f_s + i_s + w_s
//   randomized   mean over s of  Σ_t f_t  +  Σ_{t > s} i_t  +  i_s + w_s
//
// With equal stages that is a factor of about S (f + i/2) / (f + i + w): 0.75 S where backward
// takes as long as forward, in one piece; S / 2 where its two halves each do.
#pragma once

#include <span>

namespace heddle {

// Of a microbatch on one stage, in any unit.
struct BlockWork {
  double forward = 0, backward_input = 0, backward_weight = 0;
};

// Per update of a block.
struct UpdateWork {
  double pipedream = 0;
  double randomized = 0;
  double ratio() const { return pipedream > 0 ? randomized / pipedream : 0; }
};

// REQUIRES: one block at least.
UpdateWork WorkOfUpdates(std::span<const BlockWork> blocks);

}  // namespace heddle
