// heddle-worker: the part of heddle that links libtorch.

#include <cstdio>
#include <exception>

#include "worker/commands.h"

namespace heddle {
namespace {

struct Command {
  const char* name;
  Status (*run)(const Words& words);
};

constexpr Command kCommands[] = {{"verify", VerifyCommand},
                                 {"run", RunCommand},
                                 {"profile", ProfileCommand},
                                 {"share", ShareCommand}};

Status Dispatch(const Words& words) {
  for (const Command& command : kCommands) {
    if (!words.empty() && words[0] == command.name) {
      return command.run(Words(words.begin() + 1, words.end()));
    }
  }
  return Usage("heddle starts this program: see heddle --help");
}

int Main(int argc, char** argv) {
  const Status status = Dispatch(Words(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "heddle: %s\n", status.error().ToString().c_str());
  return static_cast<int>(status.error().kind);
}

}  // namespace

Result<PlanAndProfile> LoadPlanAndProfile(const std::string& plan, const std::string& profile) {
  PlanAndProfile both;
  if (!profile.empty()) {
    HEDDLE_ASSIGN(Profile loaded, LoadProfile(profile));
    both.profile = std::make_unique<Profile>(std::move(loaded));
  }
  HEDDLE_ASSIGN(both.loaded, LoadForUse(plan, both.profile.get()));
  return both;
}

}  // namespace heddle

int main(int argc, char** argv) {
  try {
    return heddle::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle-worker: internal error: %s\n", error.what());
    return static_cast<int>(heddle::ErrorKind::kInternal);
  }
}
