// Neighbours of a candidate: what differs from it in one decision. A local search by the simulator
// goes from one to the next, since estimates miss some of what happens on shared wires.
//
//   a cut moved                 [0 1 2 | 3 4]   ->  [0 1 | 2 3 4]
//   a device given away         a b | c         ->  a | b c
//   two stages made one, one made two
//   two places of the line exchanged, or two nodes, which is another device order
#pragma once

#include <vector>

#include "plan/pipeline/candidate.h"

namespace heddle {

// Those that fit by the estimates. REQUIRES: one chunk per stage.
std::vector<Candidate> Neighbours(const Candidate& candidate);

}  // namespace heddle
