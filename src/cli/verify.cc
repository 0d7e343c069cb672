// heddle verify: run a plan, or a Program as text, with real tensors and compare with one device.
// heddle-worker does it.

#include <memory>

#include "base/file.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "cli/value_check.h"
#include "cli/worker_process.h"
#include "program/program_file.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string plan;
  std::string profile;
  int64_t steps = 3;
  bool whole = false;
};

Status RefuseProfile(const Flags& flags) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(flags.file));
  if (flags.plan.empty() && IsProgramText(text)) {
    return Usage("--profile has no effect with a Program as text alone",
                 "leave it out, or add --plan with a plan made with it");
  }
  HEDDLE_ASSIGN(const Plan plan, LoadPlan(flags.plan.empty() ? flags.file : flags.plan));
  return RefuseUnreadProfile(flags.profile, plan);
}

Status Run(const Flags& flags, const Terminal& terminal) {
  if (!flags.profile.empty()) HEDDLE_RETURN_IF_ERROR(RefuseProfile(flags));
  std::vector<std::string> words = {"verify", flags.file, "--steps", std::to_string(flags.steps)};
  if (!flags.plan.empty()) words.insert(words.end(), {"--plan", flags.plan});
  if (!flags.profile.empty()) words.insert(words.end(), {"--profile", flags.profile});
  if (flags.whole) words.push_back("--whole");
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

}  // namespace

void AddVerifyCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add(
      "verify", "Train a few steps with real tensors; prove them equal to one device's",
      "heddle verify plan.json");
  command.AddOption("file", flags->file, "plan.json, or a Program as text").Required();
  command.AddOption("--plan", flags->plan,
                    "Of a Program as text: the plan it was made from, for its model");
  command.AddOption("--steps", flags->steps, "Optimizer steps")
      .Check(Within(1, 1000))
      .ShowDefault();
  command.AddFlag("--whole", flags->whole,
                  "Compute the whole model, however large, never a scaled-down copy");
  command.AddOption("--profile", flags->profile, "The profile the plan was made with");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
