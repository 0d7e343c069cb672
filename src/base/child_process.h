// ChildProcess: a process that this one has started, which nobody else waits for. It ends with its
// owner, and with this process.
//
//   HEDDLE_ASSIGN(ChildProcess child, ChildProcess::Fork([] { return Work(); }, "device 2"));
//   while (!child.Look()) …                  // once it has ended: how
//   child.Kill();
//
// Who watches processes takes them as Process, so that tests can give it some that are none.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle {

// How a process ended.
struct ProcessExit {
  int code = 0;    // that it left with, unless
  int signal = 0;  // this killed it

  bool well() const { return code == 0 && signal == 0; }
  std::string ToString() const;  // "was killed by signal 9 (Killed)"
};

class Process {
 public:
  virtual ~Process() = default;
  // Nothing while it runs, or is stopped. The same again once it has ended.
  virtual std::optional<ProcessExit> Look() = 0;
  // If it has not ended. Returns when it has.
  virtual void Kill() = 0;
};

class ChildProcess final : public Process {
 public:
  struct Options {
    bool own_group = false;  // keys pressed at the terminal are for this process alone
  };

  // REQUIRES: this process has no other threads, or `life` does no more than what is safe then.
  // `what`: in the error, if it cannot be started. The exit code is what `life` returns.
  static Result<ChildProcess> Fork(const std::function<int()>& life, const std::string& what,
                                   const Options& options);
  static Result<ChildProcess> Fork(const std::function<int()>& life, const std::string& what) {
    return Fork(life, what, {});
  }

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() override { Kill(); }

  std::optional<ProcessExit> Look() override;
  void Kill() override;
  ProcessExit Wait();
  pid_t pid() const { return pid_; }  // 0: it has ended, and has none any more

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  void Ended(int status);

  pid_t pid_ = 0;
  std::optional<ProcessExit> end_;
};

// Turns this process into that program; returns only if it cannot. A name without a path is looked
// for as a shell would.
void Become(std::vector<std::string> words);

}  // namespace heddle
