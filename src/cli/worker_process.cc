#include "cli/worker_process.h"

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

}  // namespace

Status BecomeWorker(std::vector<std::string> words) {
  HEDDLE_ASSIGN(const std::string worker, FindWorker());
  words.insert(words.begin(), worker);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  SetKernelEnvironment();
  execv(arguments[0], arguments.data());
  return Error{ErrorKind::kInternal, worker, std::string("cannot start: ") + std::strerror(errno),
               ""};
}

}  // namespace heddle
