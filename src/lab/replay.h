// Replay: the schedule of an asynchronous pipeline as the simulator finds it for the Program,
// instead of a formula.
//
//   HEDDLE_ASSIGN(const Schedule schedule, ReplayProgram({.stages = 4}));
//   CountDelays(schedule, 8, 11).most              ->  14
//
// The Program is that of `--strategy async` for a chain of layers, one device per stage; its
// segments take whole ticks, messages nothing but their latency.
#pragma once

#include <vector>

#include "base/result.h"
#include "lab/schedule.h"

namespace heddle {

struct ReplayOptions {
  PipelineClock clock;
  // How many times as long stages take; the list is repeated. Empty: all alike.
  std::vector<int64_t> slowness;
};

// Enough of it for the delays of a full pipeline.
Result<Schedule> ReplayProgram(const ReplayOptions& options);

// Of the full pipeline: microbatches in the middle of the replay.
Result<DelayCounts> ReplayedDelays(const ReplayOptions& options);

}  // namespace heddle
