// The worker loop: one device walks its list, as program.h says, with real tensors and messages.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "program/program.h"
#include "run/communicator.h"
#include "run/device_turns.h"
#include "run/executor.h"
#include "timeline/timeline.h"

namespace heddle {

// Where a device is: at an instruction of a section's list, or, where there is no such, between
// two parts of the run.
struct WorkerPlace {
  int64_t step;  // of the run, counted from 0
  Section section;
  int64_t instruction;     // number in the list
  bool computing = false;  // at the arithmetic of it, rather than waiting for what it needs
};

// A place, for those who watch from another thread or process: one number, so that no half of it
// is seen.
class WorkerProgress {
 public:
  void Store(const WorkerPlace& place) {
    packed_.store(place.step << kStepShift | int64_t{place.computing} << kComputingShift |
                      static_cast<int64_t>(place.section) << kSectionShift | place.instruction,
                  std::memory_order_relaxed);
  }
  // Nothing before the first step.
  std::optional<WorkerPlace> Load() const { return Unpack(packed()); }
  int64_t packed() const { return packed_.load(std::memory_order_relaxed); }
  // Whether a number from elsewhere can be one of packed().
  static bool IsPlace(int64_t packed) {
    return packed == kNowhere ||
           (packed >= 0 && (packed >> kSectionShift & kSectionMask) < kSectionCount);
  }
  static std::optional<WorkerPlace> Unpack(int64_t packed) {
    if (packed == kNowhere) return std::nullopt;
    return WorkerPlace{packed >> kStepShift,
                       static_cast<Section>(packed >> kSectionShift & kSectionMask),
                       packed & kInstructionMask, (packed >> kComputingShift & 1) != 0};
  }

 private:
  static constexpr int64_t kNowhere = -1;
  static constexpr int kSectionShift = 26, kComputingShift = 28, kStepShift = 29;
  static constexpr int64_t kSectionMask = 3, kInstructionMask = (int64_t{1} << kSectionShift) - 1;
  std::atomic<int64_t> packed_{kNowhere};
};

struct WorkerOptions {
  int64_t repetitions = 1;
  int64_t first_step = 0;              // for the progress
  Clock::Time start = {};              // zero of the timeline
  Clock* clock = &RealClock();         // that the timeline is of
  WorkerProgress* progress = nullptr;  // told before each instruction, and its arithmetic
  DeviceTurns* turns = nullptr;        // where other jobs use the device too
};

// Posts a send, receive or collective whose buffers are ready.
TicketPtr PostCommunication(const Program& program, int32_t device, const Instruction& in,
                            int64_t i, Executor& executor, Communicator& communicator);

// Runs the device's prologue, body and epilogue. Returns its compute events, in the form of the
// simulated timeline (lane numbers as in simulate: 2 * device).
Result<std::vector<TimelineEvent>> RunDevice(const Program& program, int32_t device,
                                             Executor& executor, Communicator& communicator,
                                             const WorkerOptions& options);

}  // namespace heddle
