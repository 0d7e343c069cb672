#include "run/step_control.h"

#include <algorithm>

namespace heddle {

bool StepGate::Begin(int32_t, int64_t step) {
  const std::lock_guard lock(mutex_);
  if (stop_ && step > begun_) return false;
  begun_ = std::max(begun_, step);
  return true;
}

void StepGate::End(int32_t, int64_t step) {
  const std::lock_guard lock(mutex_);
  if (++ended_[step] < devices_) return;
  ended_.erase(step);
  ++steps_done_;
  done_(step);
}

}  // namespace heddle
