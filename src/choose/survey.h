// A survey: several planners on the same model and cluster, within one budget of time. `compare`
// prints it, `auto` takes the best of it.
//
//   Survey survey(planning, AllPlanners(), Deadline::In(60));
//   for (const Surveyed& one : survey.Run([](const Surveyed& row) { … })) …
//
// Whoever is soon done has its turn first. Each may take an equal part of what is left, so that one
// that is slow leaves the others theirs; who has no plan by then gets what remains at the end. What
// one planner fails at is its own row and keeps nobody else from theirs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "choose/planners.h"

namespace heddle {

enum class SurveyStatus : uint8_t { kOk, kInfeasible, kNotFinished, kFailed };
std::string_view NameOf(SurveyStatus status);  // "ok", "infeasible", "not finished", "failed"

struct Surveyed {
  const Planner* planner = nullptr;
  SurveyStatus status = SurveyStatus::kNotFinished;
  std::optional<Plan> plan;     // if ok
  std::optional<Error> error;   // unless ok
  double planning_seconds = 0;  // spent on it
};

std::vector<const Planner*> AllPlanners();

class Survey {
 public:
  // The planning must outlive it; its own deadline does not count.
  Survey(const Planning& planning, std::vector<const Planner*> planners, Deadline deadline);

  struct Watcher {
    std::function<void(const Planner&)> starts = [](const Planner&) {};
    std::function<void(const Surveyed&)> ends = [](const Surveyed&) {};
  };
  // In the order of the planners given.
  std::vector<Surveyed> Run(const Watcher& watcher);

 private:
  void PlanOne(Surveyed& one, double seconds);

  Planning planning_;
  std::vector<const Planner*> planners_;
  Deadline deadline_;
};

}  // namespace heddle
