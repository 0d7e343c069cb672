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

// A bucket of gradients may be posted long before the one ahead of it is done: what counts is when
// it was posted.
void Tickets::Request(TicketRequest request) {
  const auto later =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const TicketRequest& other) { return other.since > request.since; });
  waiting_.insert(later, std::move(request));
}

void Tickets::Return(const TicketRequest& request) {
  for (const int32_t node : request.nodes) {
    if (--uses_[static_cast<size_t>(node)] == 0) owner_[static_cast<size_t>(node)] = -1;
  }
}

std::vector<TicketRequest> Tickets::Serve() {
  std::vector<TicketRequest> served;
  std::deque<TicketRequest> still;
  std::vector<int32_t> reserved(owner_.size(), -1);  // by job that waits and came earlier
  for (TicketRequest& request : waiting_) {
    const bool blocked = std::any_of(request.nodes.begin(), request.nodes.end(), [&](int32_t node) {
      const int32_t owner = owner_[static_cast<size_t>(node)];
      const int32_t earlier = reserved[static_cast<size_t>(node)];
      return (owner >= 0 && owner != request.job) || earlier >= 0;
    });
    for (const int32_t node : request.nodes) {
      const auto n = static_cast<size_t>(node);
      if (blocked) {
        reserved[n] = request.job;
      } else {
        owner_[n] = request.job;
        ++uses_[n];
      }
    }
    if (blocked) {
      still.push_back(std::move(request));
    } else {
      served.push_back(std::move(request));
    }
  }
  waiting_ = std::move(still);
  return served;
}

}  // namespace heddle
