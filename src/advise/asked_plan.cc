#include "advise/asked_plan.h"

#include <fmt/format.h>

#include <chrono>

#include "advise/adviser.h"
#include "choose/planners.h"

namespace heddle {

Deadline PlanningDeadline(const PlanRequest& request, double budget_seconds) {
  constexpr double kAuto = 60;
  if (budget_seconds > 0) return Deadline::In(budget_seconds);
  return request.strategy == "auto" ? Deadline::In(kAuto) : Deadline();
}

Result<Plan> MakeAskedPlan(const Planning& planning,
                           const std::function<void(const std::string&)>& progress) {
  const PlanRequest& request = planning.request;
  progress(fmt::format("planning {} …", request.strategy));
  if (request.strategy != "auto") return MakePlan(request.strategy, planning);
  AdviceOptions advice = AdviceFor(request);
  advice.deadline = planning.deadline;
  advice.progress = progress;
  const auto start = std::chrono::steady_clock::now();
  HEDDLE_ASSIGN(Plan plan, request.goal == PlanGoal::kTimeToLoss ? FastestToLoss(planning, advice)
                                                                 : FastestStep(planning, advice));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  plan.search.planning_seconds = seconds.count();
  return plan;
}

}  // namespace heddle
