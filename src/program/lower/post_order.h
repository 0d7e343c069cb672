// Post order: both ends of a pair of devices post their messages in the same order, so that
// libraries without message tags can carry them (program/check/untagged.h).
//
// Lowering posts a receive ahead of its use and a send when its tensor is made, so the two ends may
// disagree where several tensors are on their way. A receive can be posted earlier without harm as
// long as nothing before it uses its buffer; so each is brought forward to where the receives that
// the sender sends after it are:
//
//   sender     send a   send b            sends in this order
//   receiver   recv b … recv a            before
//   receiver   recv a   recv b …          after
#pragma once

#include "program/program.h"

namespace heddle {

// Brings receives forward, section by section, until each pair's orders agree. Where an earlier use
// of the buffer is in the way they stay as they are. Buffers may live longer for it.
void OrderReceives(Program& program);

}  // namespace heddle
