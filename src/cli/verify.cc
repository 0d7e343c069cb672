// heddle verify: run a plan with real tensors and compare with one device. heddle-worker does it.

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/command.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string profile;
  int64_t steps = 3;
};

// The worker stands beside this executable.
Result<std::string> FindWorker() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return Error{ErrorKind::kInternal, "verify", "cannot find this executable", ""};
  const std::string self(path, static_cast<size_t>(length));
  const std::string worker = self.substr(0, self.rfind('/')) + "/heddle-worker";
  if (access(worker.c_str(), X_OK) == 0) return worker;
  return BadInput(worker, "is not there", "build it with ./dev build");
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(std::string worker, FindWorker());
  std::vector<std::string> words = {worker, "verify", flags.file, "--steps",
                                    std::to_string(flags.steps)};
  if (!flags.profile.empty()) words.insert(words.end(), {"--profile", flags.profile});
  if (terminal.json) words.push_back("--json");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // One thread per device: libraries read these when they load.
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  execv(arguments[0], arguments.data());
  return Error{ErrorKind::kInternal, worker, std::string("cannot start: ") + std::strerror(errno),
               ""};
}

}  // namespace

void AddVerifyCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = commands.Add(
      "verify", "Train a few steps with real tensors; prove them equal to one device's",
      "heddle verify plan.json");
  command->add_option("plan", flags->file, "plan.json")->required();
  command->add_option("--steps", flags->steps, "Optimizer steps")->capture_default_str();
  command->add_option("--profile", flags->profile, "The profile the plan was made with");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
