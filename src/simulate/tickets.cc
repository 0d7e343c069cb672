#include "simulate/tickets.h"

#include <algorithm>

namespace heddle {

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

void Tickets::Drop(int32_t job) {
  std::erase_if(waiting_, [&](const TicketRequest& request) { return request.job == job; });
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
