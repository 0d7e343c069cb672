// How many turns a device takes in a run of a Program, and whether jobs like it can be served in
// one common order.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/program.h"

namespace heddle {

// Turns of each device in `steps` repetitions of the body: every wait for communication ends one.
Result<int64_t> CountTurns(const Program& program, int32_t device, int64_t steps);

// All devices exchange by collectives of them all, and take as many turns: data-parallel Programs.
// One order of turns on all devices is then possible; others take devices as they come.
bool TakesWholeSteps(const Program& program);

}  // namespace heddle
