#include "cli/worker_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "base/json_field.h"
#include "base/json_text.h"
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

// Until the pipe's other end is closed.
std::string ReadLines(int file, const std::function<bool(const std::string& line)>& takes) {
  std::string output, rest;
  char block[4096];
  ssize_t count = 0;
  while ((count = read(file, block, sizeof block)) > 0) {
    rest.append(block, static_cast<size_t>(count));
    size_t end = 0;
    while ((end = rest.find('\n')) != std::string::npos) {
      const std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      if (!takes || !takes(line)) output += line + "\n";
    }
  }
  return output + rest;
}

// The error object that a command prints with --json.
Error WhyItFailed(const std::string& worker, const std::string& output) {
  const Json said = ParseJsonOrDiscard(output);
  if (!said.is_object() || !said.contains("exit_code")) {
    return {ErrorKind::kRunFailed, worker, "failed", "run the command by itself to see why"};
  }
  return {static_cast<ErrorKind>(said.value("exit_code", 1)), said.value("where", ""),
          said.value("error", ""), said.value("hint", "")};
}

}  // namespace

bool HasWorker() { return FindWorker().ok(); }

Result<std::string> OutputOfWorker(std::vector<std::string> words,
                                   const std::function<bool(const std::string& line)>& takes) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  int ends[2];
  const auto cannot_start = [&] {
    return Error{ErrorKind::kRunFailed, worker,
                 std::string("cannot be started: ") + std::strerror(errno),
                 "are more processes and open files allowed (ulimit -u, ulimit -n)?"};
  };
  if (pipe2(ends, O_CLOEXEC) != 0) return cannot_start();
  const pid_t child = fork();
  if (child < 0) {
    const Error error = cannot_start();
    close(ends[0]);
    close(ends[1]);
    return error;
  }
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    Become(worker, std::move(words));
    _exit(static_cast<int>(ErrorKind::kInternal));
  }
  close(ends[1]);
  std::string output = ReadLines(ends[0], takes);
  close(ends[0]);
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return WhyItFailed(worker, output);
}

Status BecomeWorker(std::vector<std::string> words) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  Become(worker, std::move(words));
  return Error{ErrorKind::kInternal, worker, std::string("cannot start: ") + std::strerror(errno),
               ""};
}

}  // namespace heddle
