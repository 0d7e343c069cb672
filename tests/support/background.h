// Background: heddle in a process of its own, while the test looks, sends signals and waits.
//
//   Background run("run plan.json --steps 100", folder);
//   kill(run.Children()[1], SIGKILL);
//   EXPECT_EQ(run.Wait(), 5) << run.err();
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {

class Background {
 public:
  // `command` is shell text; what it prints goes to files of the folder. `environment`: "A=b", or
  // nothing.
  Background(const std::string& command, const ScratchFolder& folder,
             const std::string& environment = "")
      : out_(folder / "out"), err_(folder / "err") {
    const std::string line =
        "exec env COLUMNS=1000 " + environment + " " + HeddleBinary() + " " + command;
    pid_ = fork();
    if (pid_ != 0) return;
    setpgid(0, 0);
    if (freopen(out_.c_str(), "w", stdout) == nullptr) _exit(99);
    if (freopen(err_.c_str(), "w", stderr) == nullptr) _exit(99);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(99);
  }
  ~Background() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // In the order in which they started.
  static std::vector<pid_t> ChildrenOf(pid_t pid) {
    const std::string number = std::to_string(pid);
    std::ifstream file("/proc/" + number + "/task/" + number + "/children");
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;) children.push_back(child);
    return children;
  }
  std::vector<pid_t> Children() const { return ChildrenOf(pid_); }

  // Until it holds, however long that takes; false if the process ends before.
  template <class Condition>
  bool Await(const Condition& holds) const {
    while (!holds()) {
      if (!Exists(pid_)) return holds();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  // Once there are so many; as many as there are if it ends before.
  std::vector<pid_t> AwaitChildren(size_t count) const {
    Await([&] { return Children().size() >= count; });
    return Children();
  }

  void Signal(int signal) const { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  // Its exit code.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string err() const { return ReadFile(err_).value(); }
  std::string out() const { return ReadFile(out_).value(); }

  // Whether the process runs, or is stopped.
  static bool Exists(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    return static_cast<bool>(file >> number >> name >> state) && state != "Z";
  }

 private:
  std::string out_, err_;
  pid_t pid_;
};

}  // namespace heddle
