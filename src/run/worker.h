// The worker loop: one device walks its list, as program.h says, with real tensors and messages.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "run/communicator.h"
#include "run/executor.h"
#include "run/step_control.h"
#include "timeline/timeline.h"

namespace heddle {

struct WorkerOptions {
  int64_t repetitions = 1;
  std::chrono::steady_clock::time_point start;  // zero of the timeline
  const std::atomic<bool>* stop = nullptr;      // set: give up between instructions
  StepControl* control = nullptr;               // may end the run after a step
};

// Runs the device's prologue, body and epilogue. Returns its compute events, in the form of the
// simulated timeline (lane numbers as in simulate: 2 * device).
Result<std::vector<TimelineEvent>> RunDevice(const Program& program, int32_t device,
                                             Executor& executor, Communicator& communicator,
                                             const WorkerOptions& options);

}  // namespace heddle
