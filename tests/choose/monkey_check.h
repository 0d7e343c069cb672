// What must hold of every survey, however odd the case: no planner fails by a mistake of ours,
// nothing fits only if nothing does, and a search is not behind a plan of its own family.
//
//   HEDDLE_ASSIGN(const std::vector<MonkeyFinding> findings, CheckMonkeyCase(one, options));
#pragma once

#include <string>
#include <vector>

#include "choose/monkey_case.h"
#include "choose/survey.h"

namespace heddle {

struct MonkeyFinding {
  std::string what;     // "pipeline is behind dp: 1.20 s, 1.10 s"
  std::string command;  // that shows it
  double ratio = 0;     // of a plan that is behind: its time over the other's
};

struct MonkeyOptions {
  std::vector<const Planner*> planners = AllPlanners();
  double budget_seconds = 60;  // of a case; infinite: none
};

struct MonkeyOutcome {
  std::vector<MonkeyFinding> findings;
  std::vector<Surveyed> rows;
};

// Writes the case's files first.
Result<MonkeyOutcome> CheckMonkeyCase(const MonkeyCase& one, const MonkeyOptions& options);

// Strategies whose plans are among those that `name` searches.
const std::vector<std::string>& FamilyOf(const std::string& name);

// A plan of one device a stage, in the cluster's order, or of replicas on all devices, that fits:
// every way to cut the layers, the smallest microbatches, everything computed again. Only where
// there are few of them.
bool SomePipelineFits(const Planning& planning);

}  // namespace heddle
