#include "plan/deadline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace heddle {

double Deadline::SteadySeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Deadline Deadline::In(double seconds, Clock clock) {
  Deadline deadline;
  deadline.end_ = clock() + seconds;
  deadline.clock_ = std::move(clock);
  return deadline;
}

Deadline Deadline::AtMost(double seconds) const {
  Deadline earlier = *this;
  if (clock_) earlier.end_ = std::min(end_, clock_() + seconds);
  return earlier;
}

double Deadline::left() const {
  return clock_ ? std::max(0.0, end_ - clock_()) : std::numeric_limits<double>::infinity();
}

Error OutOfTime(const std::string& strategy) {
  return Infeasible(strategy, "not finished: no plan was found in the time given",
                    "give more with --budget SECONDS");
}

}  // namespace heddle
