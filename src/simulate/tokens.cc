#include "simulate/tokens.h"

#include <algorithm>

namespace heddle {

bool DeviceToken::Ask(int32_t job) {
  if (holder_ == job) return true;
  auto asks = asks_[static_cast<size_t>(job)];
  if (!asks) {
    asks = true;
    if (sequence_.empty()) queue_.push_back(job);
  }
  if (holder_ >= 0 || Candidate() != job) return false;
  return Grant().has_value();
}

void DeviceToken::Leave(int32_t job, bool done) {
  if (done) gone_[static_cast<size_t>(job)] = true;
  if (holder_ != job) return;
  holder_ = -1;
  ++next_;
}

std::optional<int32_t> DeviceToken::Grant() {
  if (holder_ >= 0) return std::nullopt;
  const int32_t job = Candidate();
  if (job < 0 || !asks_[static_cast<size_t>(job)]) return std::nullopt;
  asks_[static_cast<size_t>(job)] = false;
  if (sequence_.empty()) queue_.pop_front();
  holder_ = job;
  return job;
}

bool DeviceToken::Switches(int32_t job) {
  const bool switches = last_ >= 0 && last_ != job;
  last_ = job;
  return switches;
}

int32_t DeviceToken::Candidate() {
  if (!sequence_.empty()) return NextInSequence();
  return queue_.empty() ? -1 : queue_.front();
}

int32_t DeviceToken::NextInSequence() {
  for (size_t passed = 0; passed < sequence_.size(); ++passed, ++next_) {
    const int32_t job = sequence_[next_ % sequence_.size()];
    if (!gone_[static_cast<size_t>(job)]) return job;
  }
  return -1;
}

}  // namespace heddle
