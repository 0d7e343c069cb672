#include "plan/spmd/frontier.h"

#include <algorithm>
#include <numeric>

namespace heddle {

std::vector<FrontierStep> FrontierSteps(const SpmdProblem& problem, const std::vector<int>& order) {
  std::vector<FrontierStep> steps;
  std::vector<int> left(problem.graph().tensors().size());
  for (size_t t = 0; t < left.size(); ++t) left[t] = problem.touches_of(static_cast<int>(t));
  std::vector<int> live;
  for (const int op : order) {
    FrontierStep step;
    step.op = op;
    step.live = live;
    for (const Touch& touch : problem.op(op).touches) {
      const auto found = std::find(step.touched.begin(), step.touched.end(), touch.tensor);
      step.touch.push_back(static_cast<int>(found - step.touched.begin()));
      if (found == step.touched.end()) step.touched.push_back(touch.tensor);
      --left[static_cast<size_t>(touch.tensor)];
    }
    for (const int tensor : step.touched) {
      const auto found = std::find(live.begin(), live.end(), tensor);
      step.place.push_back(found == live.end() ? -1 : static_cast<int>(found - live.begin()));
      step.closes.push_back(left[static_cast<size_t>(tensor)] == 0);
    }
    std::vector<int> next;
    for (size_t k = 0; k < live.size(); ++k) {
      const auto found = std::find(step.touched.begin(), step.touched.end(), live[k]);
      const auto index = found - step.touched.begin();
      if (found == step.touched.end()) {
        step.after.push_back(static_cast<int>(k));
      } else if (!step.closes[static_cast<size_t>(index)]) {
        step.after.push_back(-1 - static_cast<int>(index));
      } else {
        continue;
      }
      next.push_back(live[k]);
    }
    for (size_t k = 0; k < step.touched.size(); ++k) {
      if (step.place[k] >= 0 || step.closes[k]) continue;
      step.after.push_back(-1 - static_cast<int>(k));
      next.push_back(step.touched[k]);
    }
    live = std::move(next);
    steps.push_back(std::move(step));
  }
  HEDDLE_CHECK(live.empty());
  return steps;
}

std::vector<int> ProgramOrder(const SpmdProblem& problem) {
  std::vector<int> order(problem.ops().size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<Outcome> OutcomesOf(SpmdProblem& problem, const FrontierStep& step,
                                const std::vector<FactId>& facts) {
  const SpmdOp& op = problem.op(step.op);
  std::vector<Outcome> outcomes;
  for (size_t c = 0; c < op.choices->size(); ++c) {
    const OpChoice& choice = (*op.choices)[c];
    Outcome outcome{static_cast<int>(c), choice.seconds, facts};
    bool broken = false;
    for (size_t t = 0; t < op.touches.size() && !broken; ++t) {
      FactTable& table = problem.facts(op.touches[t].tensor);
      FactId& fact = outcome.facts[static_cast<size_t>(step.touch[t])];
      fact = op.touches[t].produces ? table.Produce(fact, choice.layouts[t])
                                    : table.Want(fact, choice.layouts[t]);
      broken = fact == FactTable::kBroken;
    }
    if (broken) continue;
    for (size_t k = 0; k < facts.size(); ++k) {
      const FactTable& table = problem.facts(step.touched[k]);
      outcome.seconds += table.Paid(outcome.facts[k]) - table.Paid(facts[k]);
    }
    if (outcome.seconds < kNever) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace heddle
