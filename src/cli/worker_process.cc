#include "cli/worker_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "base/child_process.h"
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
void BecomeWorkerAt(const std::string& worker, std::vector<std::string> words) {
  words.insert(words.begin(), worker);
  SetKernelEnvironment();
  Become(std::move(words));
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

Result<std::string> WorkerRequest(const Json& request) {
  std::optional<std::string> text = ExactJsonText(request);
  if (text) return *std::move(text);
  return BadInput("command line", "a word is not UTF-8", "choose another name for the file");
}

Result<std::string> OutputOfWorker(std::vector<std::string> words,
                                   const std::function<bool(const std::string& line)>& takes) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorKind::kRunFailed, worker,
                 std::string("cannot be started: ") + std::strerror(errno),
                 "are more open files allowed (ulimit -n)?"};
  }
  const auto life = [&] {
    dup2(ends[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    BecomeWorkerAt(worker, std::move(words));
    return static_cast<int>(ErrorKind::kInternal);
  };
  Result<ChildProcess> child = ChildProcess::Fork(life, worker);
  close(ends[1]);
  std::string output = ReadLines(ends[0], takes);
  close(ends[0]);
  if (!child.ok()) return child.error();
  if (std::move(child).value().Wait().well()) return output;
  return WhyItFailed(worker, output);
}

Status BecomeWorker(std::vector<std::string> words) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  BecomeWorkerAt(worker, std::move(words));
  return Error{ErrorKind::kInternal, worker, std::string("cannot start: ") + std::strerror(errno),
               ""};
}

}  // namespace heddle
