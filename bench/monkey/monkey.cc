// Random cases through the survey that `heddle compare` prints, and what is wrong with them.
//
//   heddle_monkey [COUNT [SEED]] [--from N] [--small | --profiles] [--planners A,B,…]
//                 [--budget SECONDS] [--folder DIR]
//
// Case N of a seed is the same whenever it is made. Each finding is printed with the command that
// shows it; its files are in the folder, build/monkey unless given. The exit code is 1 if there was
// any. A planner that took long is named too, and is no finding: the machine may have been busy.

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "choose/monkey_check.h"

namespace heddle {
namespace {

struct Arguments {
  int count = 2000;
  uint64_t seed = 1;
  int from = 0;
  MonkeySize size = MonkeySize::kAny;
  MonkeyOptions options;
  std::string folder = "build/monkey";
};

Result<std::vector<const Planner*>> PlannersNamed(const std::string& names) {
  std::vector<const Planner*> planners;
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    HEDDLE_ASSIGN(const Planner* planner, FindPlanner(names.substr(at, comma - at)));
    planners.push_back(planner);
    at = comma + 1;
  }
  return planners;
}

Result<Arguments> ParseArguments(const std::vector<std::string>& words) {
  Arguments arguments;
  int numbers = 0;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool last = k + 1 == words.size();
    const std::string& word = words[k];
    if (word == "--small") {
      arguments.size = MonkeySize::kSmall;
    } else if (word == "--profiles") {
      arguments.size = MonkeySize::kProfiles;
    } else if (word == "--from" && !last) {
      arguments.from = std::atoi(words[++k].c_str());
    } else if (word == "--planners" && !last) {
      HEDDLE_ASSIGN(arguments.options.planners, PlannersNamed(words[++k]));
    } else if (word == "--budget" && !last) {
      arguments.options.budget_seconds = std::atof(words[++k].c_str());
    } else if (word == "--folder" && !last) {
      arguments.folder = words[++k];
    } else if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos &&
               numbers < 2) {
      if (numbers++ == 0) {
        arguments.count = std::atoi(word.c_str());
      } else {
        arguments.seed = std::strtoull(word.c_str(), nullptr, 10);
      }
    } else {
      return Usage(word + " is unknown or wants a value");
    }
  }
  return arguments;
}

// How the planners did, over all cases.
struct Tally {
  int plans = 0, none = 0, unfinished = 0, failed = 0;
  double planning_seconds = 0, longest = 0;
};

Result<bool> Run(const std::vector<std::string>& words) {
  HEDDLE_ASSIGN(const Arguments arguments, ParseArguments(words));
  std::map<std::string, Tally> tallies;
  int findings = 0;
  for (int k = arguments.from; k < arguments.from + arguments.count; ++k) {
    const MonkeyCase one = MakeMonkeyCase(arguments.seed, k, arguments.size, arguments.folder);
    Result<MonkeyOutcome> outcome = CheckMonkeyCase(one, arguments.options);
    if (!outcome.ok()) {
      fmt::print("{}: cannot be made: {}\n  {}\n", one.name, outcome.error().ToString(),
                 one.Command("compare"));
      ++findings;
      continue;
    }
    for (const Surveyed& row : outcome.value().rows) {
      Tally& tally = tallies[row.planner->name];
      tally.plans += row.status == SurveyStatus::kOk ? 1 : 0;
      tally.none += row.status == SurveyStatus::kInfeasible ? 1 : 0;
      tally.unfinished += row.status == SurveyStatus::kNotFinished ? 1 : 0;
      tally.failed += row.status == SurveyStatus::kFailed ? 1 : 0;
      tally.planning_seconds += row.planning_seconds;
      tally.longest = std::max(tally.longest, row.planning_seconds);
      constexpr double kLong = 10;
      if (row.planning_seconds > kLong) {
        fmt::print("{}: {} took {:.1f} s\n  {}\n", one.name, row.planner->name,
                   row.planning_seconds, one.Command("plan --strategy " + row.planner->name));
      }
    }
    for (const MonkeyFinding& finding : outcome.value().findings) {
      fmt::print("{}: {}\n  {}\n", one.name, finding.what, finding.command);
      ++findings;
    }
    std::fflush(stdout);
  }
  fmt::print(
      "\n| planner | plans | nothing fits | not finished | failed | planning, s | longest, s |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, tally] : tallies) {
    fmt::print("| {} | {} | {} | {} | {} | {:.1f} | {:.1f} |\n", name, tally.plans, tally.none,
               tally.unfinished, tally.failed, tally.planning_seconds, tally.longest);
  }
  fmt::print("\n{} cases of seed {}, {} findings.\n", arguments.count, arguments.seed, findings);
  return findings > 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  const heddle::Result<bool> found = heddle::Run({argv + 1, argv + argc});
  if (found.ok()) return found.value() ? 1 : 0;
  fmt::print(stderr, "{}\n", found.error().ToString());
  return static_cast<int>(found.error().kind);
}
