// RunFront: the side of a run that people see. Shows progress, prints the result, leaves the
// timeline. For the first rank.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "program/plan/plan.h"
#include "run/step_rate.h"
#include "run/train/train.h"

namespace heddle {

// One line that is rewritten on a terminal, some twenty lines elsewhere.
class ProgressLine {
 public:
  ProgressLine();

  void Note(const std::string& line);
  void Step(int64_t step, int64_t steps, double loss, double seconds);
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool open_ = false;  // a line without its end
  StepRate rate_;
  Clock::time_point shown_;
};

class RunFront {
 public:
  RunFront(const Plan& plan, bool as_json);
  RunFront(const RunFront&) = delete;
  RunFront& operator=(const RunFront&) = delete;

  const RunListener& listener() const { return listener_; }

  // Which signal asked to stop, if any: this process's own unless told otherwise.
  void StopOn(std::function<int()> signal) { signal_ = std::move(signal); }
  // Told of the run's directory.
  void OnOpened(std::function<void(const std::string&)> opened) {
    listener_.opened = std::move(opened);
  }

  // The exit code.
  Result<int> Conclude(const Result<RunResult>& trained);

 private:
  const Plan& plan_;
  bool as_json_;
  std::function<int()> signal_;
  ProgressLine progress_;
  RunListener listener_;
};

}  // namespace heddle
