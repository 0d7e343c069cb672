// What the segment of a piece needs inside, on one device. Internal to lowering.
#pragma once

#include "base/units.h"
#include "program/lower/spmd_schedule.h"
#include "program/program.h"

namespace heddle {

// Most memory at once, beyond what was there before. The segment has the piece's ops, with the
// device's shards, in the Program's tables.
Bytes ScratchOf(const Program& program, const Segment& segment, const SpmdPlan& plan,
                const SpmdSchedule& schedule, const SpmdPiece& piece, const Graph& graph);

}  // namespace heddle
