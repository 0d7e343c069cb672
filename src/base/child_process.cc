#include "base/child_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace heddle {

std::string ProcessExit::ToString() const {
  if (signal == 0) return fmt::format("left with exit code {}", code);
  return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
}

Result<ChildProcess> ChildProcess::Fork(const std::function<int()>& life, const std::string& what,
                                        const Options& options) {
  std::fflush(nullptr);  // or the child would write it, too
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return Error{ErrorKind::kRunFailed, what,
                 std::string("cannot be started: ") + std::strerror(errno),
                 "are more processes allowed (ulimit -u)?"};
  }
  if (child > 0) return ChildProcess(child);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ErrorKind::kRunFailed));  // it was too late
  if (options.own_group) setpgid(0, 0);
  const int code = life();
  std::fflush(nullptr);
  _exit(code);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), end_(other.end_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, 0);
  end_ = other.end_;
  return *this;
}

std::optional<ProcessExit> ChildProcess::Look() {
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) Ended(status);
  return end_;
}

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

ProcessExit ChildProcess::Wait() {
  int status = 0;
  pid_t ended = -1;
  while (pid_ > 0 && (ended = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) continue;
  if (pid_ > 0) Ended(ended == pid_ ? status : -1);
  return *end_;
}

void ChildProcess::Ended(int status) {
  pid_ = 0;
  if (status >= 0 && WIFSIGNALED(status)) {
    end_ = {0, WTERMSIG(status)};
  } else {
    end_ = {status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1, 0};
  }
}

void Become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

}  // namespace heddle
