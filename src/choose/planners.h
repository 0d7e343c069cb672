// The planners by name: the one table that plan, compare and auto read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// Who is soon done: where time is short they have their turn first.
enum class PlannerPace : uint8_t { kQuick, kSteady, kLong };

struct Planner {
  std::string name;   // --strategy
  std::string about;  // one line
  Result<Plan> (*plan)(const Planning& planning);
  PlannerPace pace = PlannerPace::kQuick;
};

const std::vector<Planner>& Planners();

// By its name or one that others give it: ddp, fsdp, tp. An unknown name is refused with the
// nearest known one.
Result<const Planner*> FindPlanner(std::string_view name);

// Plans and records the planning time.
Result<Plan> MakePlan(const Planner& planner, const Planning& planning);
Result<Plan> MakePlan(std::string_view strategy, const Planning& planning);

}  // namespace heddle
