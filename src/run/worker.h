// The worker loop: one device walks its list, as program.h says, with real tensors and messages.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "run/communicator.h"
#include "run/executor.h"
#include "timeline/timeline.h"

namespace heddle {

// Where a device is, for those who watch it from another thread or process.
struct WorkerProgress {
  static constexpr int64_t kNowhere = -1;
  std::atomic<int64_t> step{kNowhere};         // of the run, counted from 0
  std::atomic<int64_t> section{0};             // Section
  std::atomic<int64_t> instruction{kNowhere};  // number in the section's list
};

struct WorkerOptions {
  int64_t repetitions = 1;
  int64_t first_step = 0;                       // for the progress
  std::chrono::steady_clock::time_point start;  // zero of the timeline
  WorkerProgress* progress = nullptr;           // told before each instruction
};

// Runs the device's prologue, body and epilogue. Returns its compute events, in the form of the
// simulated timeline (lane numbers as in simulate: 2 * device).
Result<std::vector<TimelineEvent>> RunDevice(const Program& program, int32_t device,
                                             Executor& executor, Communicator& communicator,
                                             const WorkerOptions& options);

}  // namespace heddle
