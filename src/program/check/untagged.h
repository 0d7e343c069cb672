// Whether a Program is safe with libraries that know no message tags, as NCCL: messages from one
// device to another then meet in the order in which both ends post them, whatever their tags, and a
// send may wait until it is received.
//
//   if (const auto crossing = NeedsTags(program)) …        // what meets the wrong message
//
// Where both ends of every pair post in the same order, the messages that meet are those that would
// meet with tags, and no post waits for one behind it: what CheckProgress proves with tags then
// holds without. Collectives have one order for each group in any case. Waits are for fixed events,
// so this is proven for all timings at once.
#pragma once

#include <optional>
#include <string>

#include "program/program.h"

namespace heddle {

// The first two messages of a pair that its ends post in different orders, in a sentence; nothing:
// the Program is safe without tags. REQUIRES: a Program that CheckProgram accepts.
std::optional<std::string> NeedsTags(const Program& program);

}  // namespace heddle
