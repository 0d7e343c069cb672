// TimedRun: devices that keep time and nothing else, for models of which only times are known.
//
//   Emulation emulation(…);
//   HEDDLE_ASSIGN(TimedResult result, RunTimed(program, emulation, {.steps = 20, .dilation = 4}));
//
// Every device is a thread that walks its list as in a real run. Computes sleep for their modelled
// time, messages arrive when the modelled network brings them; buffers have sizes but no memory.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "run/emulation.h"
#include "timeline/timeline.h"

namespace heddle {

struct TimedOptions {
  int64_t steps = 1;
  double dilation = 1;                                       // how much slower time goes
  std::function<bool()> interrupted = [] { return false; };  // asked between steps
};

struct TimedResult {
  std::vector<double> seconds;  // by step, of the modelled cluster
  Timeline timeline;            // of the last step, likewise
  int64_t deadlines = 0;        // ends of computes, and
  int64_t missed = 0;           // how many came more than a millisecond late
};

// REQUIRES: the emulation is the Program's, and not paced yet.
Result<TimedResult> RunTimed(const Program& program, Emulation& emulation,
                             const TimedOptions& options);

// How much slower time must go so that sleeping is exact enough for steps of so many seconds.
double DilationFor(const Program& program, const Emulation& emulation, double step_seconds);

}  // namespace heddle
