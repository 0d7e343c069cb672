// LateTicket: of a communication that another thread performs, and then finishes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "run/communicator.h"

namespace heddle {

class LateTicket final : public Ticket {
 public:
  void Wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (!error_.empty()) throw PeerLost(error_);
  }
  void Finish(std::string error) {  // empty: well
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string error_;
};

// Does it; what went wrong, or nothing.
template <class Work>
std::string ErrorOf(const Work& work) {
  try {
    work();
  } catch (const std::exception& caught) {
    const std::string what = caught.what();
    return what.empty() ? "a communication failed" : what.substr(0, what.find('\n'));  // no stack
  }
  return "";
}

}  // namespace heddle
