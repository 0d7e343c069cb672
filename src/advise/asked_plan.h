// The plan that a request asks for: of the strategy it names, or, for auto, the best of them.
//
//   HEDDLE_ASSIGN(Planning planning, Planning::Make(request, cluster, nullptr,
//   PlanningDeadline(request, 0))); HEDDLE_ASSIGN(Plan plan, MakeAskedPlan(planning, [](const
//   std::string& what) { … }));
#pragma once

#include <functional>
#include <string>

#include "plan/planning.h"

namespace heddle {

// From now on, for so many seconds; 0: not said. Unless it is, all strategies together may take a
// minute, and one alone takes as long as it takes.
Deadline PlanningDeadline(const PlanRequest& request, double budget_seconds);

// `progress` hears what is done.
Result<Plan> MakeAskedPlan(const Planning& planning,
                           const std::function<void(const std::string&)>& progress);

}  // namespace heddle
