#include "choose/survey.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace heddle {

std::string_view NameOf(SurveyStatus status) {
  static constexpr std::array<std::string_view, 4> kNames = {"ok", "infeasible", "not finished",
                                                             "failed"};
  return kNames[static_cast<size_t>(status)];
}

std::vector<const Planner*> AllPlanners() {
  std::vector<const Planner*> all;
  for (const Planner& planner : Planners()) all.push_back(&planner);
  return all;
}

Survey::Survey(const Planning& planning, std::vector<const Planner*> planners, Deadline deadline)
    : planning_(planning), planners_(std::move(planners)), deadline_(std::move(deadline)) {}

std::vector<Surveyed> Survey::Run(const Watcher& watcher) {
  std::vector<Surveyed> rows;
  for (const Planner* planner : planners_) {
    rows.push_back({planner, SurveyStatus::kNotFinished, {}, OutOfTime(planner->name), 0});
  }
  std::vector<Surveyed*> turns;
  for (Surveyed& row : rows) turns.push_back(&row);
  std::stable_sort(turns.begin(), turns.end(), [](const Surveyed* a, const Surveyed* b) {
    return a->planner->pace < b->planner->pace;
  });
  for (const bool last_try : {false, true}) {
    for (size_t k = 0; k < turns.size(); ++k) {
      watcher.starts(*turns[k]->planner);
      PlanOne(*turns[k], deadline_.left() / static_cast<double>(turns.size() - k));
      const bool may_go_on = turns[k]->status == SurveyStatus::kNotFinished && !last_try;
      if (!may_go_on) watcher.ends(*turns[k]);
    }
    std::erase_if(turns,
                  [](const Surveyed* row) { return row->status != SurveyStatus::kNotFinished; });
  }
  return rows;
}

void Survey::PlanOne(Surveyed& one, double seconds) {
  if (deadline_.passed()) return;
  planning_.deadline = deadline_.AtMost(seconds);
  const auto start = std::chrono::steady_clock::now();
  Result<Plan> planned = MakePlan(*one.planner, planning_);
  if (planned.ok()) {
    one.plan = std::move(planned).value();
    one.error.reset();
    one.status = SurveyStatus::kOk;
    one.planning_seconds = one.plan->search.planning_seconds;
    return;
  }
  one.planning_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  one.error = planned.error();
  const ErrorKind kind = planned.error().kind;
  if (kind != ErrorKind::kInfeasible && kind != ErrorKind::kUsage) {
    one.status = SurveyStatus::kFailed;
  } else if (!planning_.deadline.passed()) {
    one.status = SurveyStatus::kInfeasible;
  }
}

}  // namespace heddle
