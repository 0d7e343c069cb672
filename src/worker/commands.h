// What heddle-worker can do. heddle starts it; people need not.
//
//   heddle-worker verify FILE [--plan plan.json] [--steps K] [--profile file] [--json]
//   heddle-worker run '{"plan": "plan.json", "steps": 100, …}' [--json]      run_config.h, and the
//   names
//                                                            of options that were given as "given"
//   heddle-worker share '{"jobs": [{"name": "a", …}], …}' [--json]           share_config.h
//   heddle-worker race plan.json '{"methods": ["pd"], …}' --json             race_json.h
//   heddle-worker profile '{"models": ["tiny-gpt"], …}' [--json]             profile.cc
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// The words after the command.
using Words = std::vector<std::string>;

// What is left to do once people have been told how a command ended.
using Farewell = std::function<void()>;

Status VerifyCommand(const Words& words);
// Its exit code: a signal may have stopped it.
Result<int> RunCommand(const Words& words, Farewell& farewell);
Status ProfileCommand(const Words& words);
Result<int> ShareCommand(const Words& words);  // the same
Status RaceCommand(const Words& words);

// A plan with its graph; a profile if one is named.
struct PlanAndProfile {
  std::unique_ptr<Profile> profile;
  LoadedPlan loaded;
};
Result<PlanAndProfile> LoadPlanAndProfile(const std::string& plan, const std::string& profile);

}  // namespace heddle
