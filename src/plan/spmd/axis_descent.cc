#include "plan/spmd/axis_descent.h"

#include <algorithm>

namespace heddle {
namespace {

// States kept, where there are too many: few lose half a percent at most where it was measured.
constexpr size_t kRough = 500, kFine = 3000;

Restriction AsChosen(const SpmdProblem& problem, size_t axis, const std::vector<int>& choices) {
  Restriction fixed{axis, {}};
  for (size_t k = 0; k < choices.size(); ++k) {
    fixed.rules.push_back(problem.choice(static_cast<int>(k), choices[k]).rules[axis]);
  }
  return fixed;
}

SpmdChoices Descend(SpmdProblem& problem, Restriction fixed, size_t most_states) {
  constexpr double kWorthwhile = 1 - 1e-6;
  SpmdChoices best = SearchFolded(problem, {most_states, kManyStates, &fixed});
  while (true) {
    fixed = AsChosen(problem, 1 - fixed.axis, best.choices);
    SpmdChoices next = SearchFolded(problem, {most_states, kManyStates, &fixed});
    const bool better = next.seconds < kWorthwhile * best.seconds;
    if (next.seconds <= best.seconds) best = std::move(next);
    if (!better) return best;
  }
}

}  // namespace

Restriction DividedBy(const SpmdProblem& problem, size_t axis, std::string_view letters,
                      bool free_updates) {
  Restriction fixed{axis, {}};
  for (size_t k = 0; k < problem.ops().size(); ++k) {
    int rule = 0;  // all of it everywhere
    for (const char letter : letters) {
      if (rule != 0) break;
      for (const OpChoice& choice : *problem.ops()[k].choices) {
        if (choice.rule[axis].letter == letter) rule = choice.rules[axis];
      }
    }
    const bool is_free = free_updates && problem.graph().ops()[k].phase == Phase::kUpdate;
    fixed.rules.push_back(is_free ? -1 : rule);
  }
  return fixed;
}

std::vector<SpmdChoices> SearchByAxis(SpmdProblem& problem) {
  const std::vector<Restriction> starts = {DividedBy(problem, 0, "b"), DividedBy(problem, 0, "eb"),
                                           DividedBy(problem, 0, ""), DividedBy(problem, 1, "b")};
  std::vector<SpmdChoices> found;
  for (size_t k = 0; k < starts.size(); ++k) {
    const bool again =
        std::any_of(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(k),
                    [&](const Restriction& one) {
                      return one.axis == starts[k].axis && one.rules == starts[k].rules;
                    });
    if (!again) found.push_back(Descend(problem, starts[k], kRough));
  }
  const auto best = std::min_element(
      found.begin(), found.end(),
      [](const SpmdChoices& a, const SpmdChoices& b) { return a.seconds < b.seconds; });
  *best = ImproveByAxis(problem, best->choices);
  std::stable_sort(found.begin(), found.end(), [](const SpmdChoices& a, const SpmdChoices& b) {
    return a.seconds < b.seconds;
  });
  const auto same = [](const SpmdChoices& a, const SpmdChoices& b) {
    return a.choices == b.choices;
  };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

SpmdChoices ImproveByAxis(SpmdProblem& problem, const std::vector<int>& choices) {
  return Descend(problem, AsChosen(problem, 0, choices), kFine);
}

}  // namespace heddle
