// Tokens: who computes on a device. Internal to simulate/.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "simulate/joint.h"

namespace heddle {

// The right to compute on one device.
class DeviceToken {
 public:
  // `sequence` is empty where it goes to who asks first. It names jobs; those that do not use the
  // device are passed over.
  DeviceToken(std::vector<int32_t> sequence, size_t jobs)
      : sequence_(std::move(sequence)), gone_(jobs, true), asks_(jobs, false) {}

  void Join(int32_t job) { gone_[static_cast<size_t>(job)] = false; }
  bool Ask(int32_t job);  // true: it has the token now
  void Leave(int32_t job, bool done);
  std::optional<int32_t> Grant();  // to one that asked, when it is free

  // Remembers who computes; true when that is another one than before.
  bool Switches(int32_t job);

 private:
  int32_t NextInSequence();
  int32_t Candidate();

  std::vector<int32_t> sequence_;
  size_t next_ = 0;
  std::deque<int32_t> queue_;  // first come, first served
  std::vector<bool> gone_;     // by job: has nothing (more) to do here
  std::vector<bool> asks_;
  int32_t holder_ = -1;
  int32_t last_ = -1;
};

}  // namespace heddle
