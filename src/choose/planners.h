// The planners by name: the one table that plan, compare and auto read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

struct Planner {
  std::string name;   // --strategy
  std::string about;  // one line
  Result<Plan> (*plan)(const Planning& planning);
};

const std::vector<Planner>& Planners();

// Plans and records the planning time. An unknown name is refused with the nearest known one.
Result<Plan> MakePlan(std::string_view strategy, const Planning& planning);

}  // namespace heddle
