// heddle-worker: the part of heddle that links libtorch.

#include <algorithm>
#include <exception>

#include "base/json_field.h"
#include "worker/commands.h"
#include "worker/output.h"

namespace heddle {
namespace {

struct Command {
  const char* name;
  Result<int> (*run)(const Words& words);  // the exit code
};

// Ended well, or not at all.
template <Status (*run)(const Words& words)>
Result<int> Plainly(const Words& words) {
  HEDDLE_RETURN_IF_ERROR(run(words));
  return 0;
}

constexpr Command kCommands[] = {{"verify", Plainly<VerifyCommand>},
                                 {"run", RunCommand},
                                 {"profile", Plainly<ProfileCommand>},
                                 {"share", ShareCommand},
                                 {"race", Plainly<RaceCommand>}};

Result<int> Dispatch(const Words& words) {
  HEDDLE_RETURN_IF_ERROR(PrepareOutput());
  for (const Command& command : kCommands) {
    if (!words.empty() && words[0] == command.name) {
      return command.run(Words(words.begin() + 1, words.end()));
    }
  }
  return Usage("heddle starts this program: see heddle --help");
}

// As heddle does: with --json an error is an object on standard output, too.
int Fail(const Error& error, bool as_json) {
  const int code = static_cast<int>(error.kind);
  if (as_json && !HasPrinted()) {
    (void)PrintJson({{"schema", "heddle.error/1"},
                     {"exit_code", code},
                     {"where", error.where},
                     {"error", error.what},
                     {"hint", error.hint}})
        .ok();
  }
  Say("heddle: {}\n", error.ToString());
  return code;
}

int Main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    const Result<int> code = Dispatch(words);
    return code.ok() ? code.value() : Fail(code.error(), as_json);
  } catch (const std::exception& error) {
    return Fail({ErrorKind::kInternal, "heddle-worker", error.what(), ""}, as_json);
  }
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

int main(int argc, char** argv) { return heddle::Main(argc, argv); }
