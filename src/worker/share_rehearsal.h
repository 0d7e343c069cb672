// A rehearsal of failure: one rank of a share kills itself or hangs at a chosen point, so that one
// can see whether the other jobs go on. Asked for by an environment variable:
//
//   HEDDLE_SHARE_FAULT="job=a rank=1 step=5 at=holding do=hang" heddle share jobs.toml --run
//
//   at=before-first-step   ready and begun, but it never comes for its first turn
//   at=holding             in a compute of the step, having the device
//   at=in-collective       when the sum of the step's gradients is its to begin; the other members
//                          have posted theirs
//   at=holding-network     when that sum is done, before it lets the network go
//   do=kill                SIGKILL
//   do=hang                goes on beating, and does nothing else
//
// Jobs that run alone are spared. Without the variable nothing is wrapped.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "run/communicator.h"
#include "run/device_turns.h"
#include "run/executor.h"
#include "run/share/board.h"

namespace heddle {

enum class FaultPoint { kBeforeFirstStep, kHolding, kInCollective, kHoldingNetwork };

struct ShareFault {
  std::string job;
  int64_t rank = 0;
  int64_t step = 1;  // the first is 1
  FaultPoint at = FaultPoint::kHolding;
  bool hangs = false;  // or is killed
};

// Of the text of the variable.
Result<ShareFault> ParseShareFault(const std::string& text);
// Of this process's environment: nothing if the variable is not set.
Result<std::optional<ShareFault>> RehearsedFault();

// Around what a rank computes and communicates with.
class Rehearsal {
 public:
  // The fault may be another rank's.
  Rehearsal(std::optional<ShareFault> fault, Board board, int32_t job, int32_t rank,
            Communicator& inner);
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  Communicator& communicator();
  // What these return lives as long as this.
  DeviceTurns& Wrap(DeviceTurns& turns);
  Executor& Wrap(Executor& executor);

 private:
  class Stage;
  class Network;
  class Turns;
  class Device;
  std::unique_ptr<Stage> stage_;  // null: no fault of this rank's
  std::unique_ptr<Network> network_;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<Device> device_;
  Communicator& inner_;
};

}  // namespace heddle
