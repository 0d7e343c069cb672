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
  Result<int> (*run)(const Words& words, Farewell& farewell);  // the exit code
};

// Ended well, or not at all.
template <Status (*run)(const Words& words)>
Result<int> Plainly(const Words& words, Farewell&) {
  HEDDLE_RETURN_IF_ERROR(run(words));
  return 0;
}
Result<int> Share(const Words& words, Farewell&) { return ShareCommand(words); }

constexpr Command kCommands[] = {{"verify", Plainly<VerifyCommand>},
                                 {"run", RunCommand},
                                 {"profile", Plainly<ProfileCommand>},
                                 {"share", Share},
                                 {"race", Plainly<RaceCommand>}};

Result<int> Dispatch(const Words& words, Farewell& farewell) {
  HEDDLE_RETURN_IF_ERROR(PrepareOutput());
  for (const Command& command : kCommands) {
    if (!words.empty() && words[0] == command.name) {
      return command.run(Words(words.begin() + 1, words.end()), farewell);
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
  Farewell farewell = [] {};
  const Result<int> ended = [&]() -> Result<int> {
    try {
      return Dispatch(words, farewell);
    } catch (const std::exception& error) {
      return Error{ErrorKind::kInternal, "heddle-worker", error.what(), ""};
    }
  }();
  const int code = ended.ok() ? ended.value() : Fail(ended.error(), as_json);
  farewell();
  return code;
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
