// FakeProcess: a process that is none. It ends when the test says so, or is killed.
//
//   FakeProcesses made;
//   watcher takes made.Make();                 // a std::unique_ptr<Process>
//   made[0].end = ProcessExit{.code = 3};
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/child_process.h"

namespace heddle {

struct FakeProcessState {
  std::optional<ProcessExit> end = {};
  bool killed = false;
};

// Keeps what became of those that it has made.
class FakeProcesses {
 public:
  std::unique_ptr<Process> Make() { return std::make_unique<One>(states_.emplace_back()); }
  FakeProcessState& operator[](size_t k) { return states_.at(k); }
  size_t size() const { return states_.size(); }

 private:
  class One final : public Process {
   public:
    explicit One(FakeProcessState& state) : state_(state) {}
    std::optional<ProcessExit> Look() override { return state_.end; }
    void Kill() override {
      if (state_.end) return;
      state_.end = ProcessExit{.signal = 9};
      state_.killed = true;
    }

   private:
    FakeProcessState& state_;
  };

  std::deque<FakeProcessState> states_;
};

}  // namespace heddle
