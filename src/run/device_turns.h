// DeviceTurns: a device that several jobs compute on in turns. The worker loop has the device while
// it computes, and gives it back before it waits for communication: nobody waits for the network
// while holding a device, so jobs cannot wait for each other in a circle.
//
//   turns.Begin();
//   turns.Acquire();        // idempotent: before a compute
//   turns.Release();        // idempotent: before a wait
//   turns.End();
//
// Without it (a null pointer) the loop goes as ever.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle {

class DeviceTurns {
 public:
  virtual ~DeviceTurns() = default;
  virtual void Begin() = 0;  // before the first instruction: until the job takes part
  virtual void Acquire() = 0;
  virtual void Release() = 0;
  virtual void End() = 0;  // nothing is in flight any more
  // All but the last throw PeerLost when this job is no longer wanted.

  // Whether a wait is for all communication in flight. A data-parallel step is then one turn: all
  // sums are waited for, then update, forward and backward follow each other.
  virtual bool whole_steps() const = 0;
  // Repetitions after which the job ends, though more were asked for. Looked at before each.
  virtual int64_t StopsAfter() const { return INT64_MAX; }
  // The body's repetition `i` has ended: its updates are done.
  virtual void StepDone(int64_t i) = 0;
  // After it, before the next update: nothing writes the parameters of this device now.
  virtual void TakeHash() = 0;
  // How to hash the parameters that this device updates, as they are now.
  virtual void SetHash(std::function<uint64_t()> hash) = 0;
};

}  // namespace heddle
