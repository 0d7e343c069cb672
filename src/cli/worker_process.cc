#include "cli/worker_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "run/kernel_environment.h"

namespace heddle {
namespace {

Result<std::string> FindWorker() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return Error{ErrorKind::kInternal, "heddle", "cannot find this executable", ""};
  const std::string self(path, static_cast<size_t>(length));
  const std::string worker = self.substr(0, self.rfind('/')) + "/heddle-worker";
  if (access(worker.c_str(), X_OK) == 0) return worker;
  return BadInput(worker, "is not there", "build it with ./dev build");
}

// Turns this process into the worker; returns only if that fails.
void Become(const std::string& worker, std::vector<std::string> words) {
  words.insert(words.begin(), worker);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  SetKernelEnvironment();
  execv(arguments[0], arguments.data());
}

}  // namespace

bool HasWorker() { return FindWorker().ok(); }

Result<std::string> OutputOfWorker(std::vector<std::string> words) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  int ends[2];
  if (pipe(ends) != 0) return Error{ErrorKind::kInternal, worker, std::strerror(errno), ""};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(ends[0]);
    Become(worker, std::move(words));
    _exit(static_cast<int>(ErrorKind::kInternal));
  }
  close(ends[1]);
  std::string output;
  char block[4096];
  ssize_t count = 0;
  while ((count = read(ends[0], block, sizeof block)) > 0) {
    output.append(block, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return Error{ErrorKind::kRunFailed, worker, "failed", "run the command by itself to see why"};
}

Status BecomeWorker(std::vector<std::string> words) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  Become(worker, std::move(words));
  return Error{ErrorKind::kInternal, worker, std::string("cannot start: ") + std::strerror(errno),
               ""};
}

}  // namespace heddle
