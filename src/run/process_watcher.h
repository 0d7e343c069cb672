// ProcessWatcher: the parent's side of processes.h. It knows processes as something that has ended
// or can be killed, and time as a clock, so that tests need neither.
//
//   ProcessWatcher watcher(slots, std::move(processes), watch);
//   const Status status = watcher.Watch();         // until all have ended, or one has failed
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/result.h"
#include "run/attended_clock.h"
#include "run/processes.h"
#include "run/vigil.h"

namespace heddle {

class ProcessWatcher {
 public:
  // `slots` and `watch` must outlive it.
  ProcessWatcher(std::span<ProcessSlot> slots, std::vector<std::unique_ptr<Process>> processes,
                 const ProcessWatch& watch);

  // None is left after it, whatever it returns.
  Status Watch();
  ProcessesEnd End() const { return {lost_, slots_[0].said, slots_[0].stop, at_once_}; }

 private:
  struct Child {
    std::unique_ptr<Process> process;
    Vigil vigil;
    const char* hung = nullptr;             // how
    std::optional<ProcessExit> ended = {};  // by itself
    bool killed = false;                    // by the watcher
    int64_t order = INT64_MAX;              // in which it was seen to leave or hang

    bool lives() const { return !ended && !killed; }
  };

  void KillAll();
  int Asked() const;
  bool AnyLives() const;
  void Reap();
  void LookAtTheLiving();
  bool LeftSilently(size_t rank) const;
  bool Failed(size_t rank, bool lost_a_peer) const;
  bool AllSay(const std::string& what) const;
  Error Cause();
  Error WhyItFailed(size_t rank) const;
  Error Describe(size_t rank, const std::string& what) const;

  std::span<ProcessSlot> slots_;
  const ProcessWatch& watch_;
  Clock& clock_;
  AttendedClock attended_;
  std::vector<Child> children_;
  std::optional<Clock::Time> first_failure_;
  std::optional<int32_t> lost_;
  int64_t left_ = 0;  // so many, by death, end or silence
  bool at_once_ = false;
};

}  // namespace heddle
