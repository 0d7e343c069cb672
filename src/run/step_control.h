// StepControl: who may begin a step, and who hears that one is done. A run that is asked to stop
// finishes the step that some device has begun, on all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace heddle {

class StepControl {
 public:
  virtual ~StepControl() = default;
  // Called by a device before and after each repetition of the body. False: stop here.
  virtual bool Begin(int32_t device, int64_t step) = 0;
  virtual void End(int32_t device, int64_t step) = 0;
};

// For devices that are threads of one process.
class StepGate final : public StepControl {
 public:
  // `done(step)` is called once all devices have ended a step, for one step after the other.
  StepGate(int devices, std::function<void(int64_t step)> done)
      : devices_(devices), done_(std::move(done)) {}

  bool Begin(int32_t device, int64_t step) override;
  void End(int32_t device, int64_t step) override;

  // No step begins after those that have. May be called by `done`.
  void Stop() { stop_ = true; }
  int64_t steps_done() const { return steps_done_; }

 private:
  const int devices_;
  std::function<void(int64_t)> done_;
  std::mutex mutex_;
  std::atomic<bool> stop_{false};
  int64_t begun_ = -1;  // the last step that any device began
  int64_t steps_done_ = 0;
  std::map<int64_t, int> ended_;  // devices, by step
};

}  // namespace heddle
