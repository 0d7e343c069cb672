#include "plan/spmd/axis_descent.h"

#include <algorithm>

namespace heddle {
namespace {

// States kept, where there are too many: with more, no plan of bench/hap gets faster.
constexpr size_t kRough = 100, kFine = 200;

// Choices with the same rules on one axis.
struct FixedAxis {
  size_t axis;
  Restriction restriction;
};

FixedAxis AsChosen(const SpmdProblem& problem, size_t axis, const std::vector<int>& choices) {
  FixedAxis fixed{axis, {}};
  for (size_t k = 0; k < choices.size(); ++k) {
    const int rule = problem.choice(static_cast<int>(k), choices[k]).rules[axis];
    const std::vector<OpChoice>& all = *problem.ops()[k].choices;
    fixed.restriction.choices.emplace_back();
    for (size_t c = 0; c < all.size(); ++c) {
      if (all[c].rules[axis] == rule)
        fixed.restriction.choices.back().push_back(static_cast<int>(c));
    }
  }
  return fixed;
}

// Every op that has one of these letters divided by the first of them on that axis, the others
// whole.
FixedAxis DividedBy(const SpmdProblem& problem, size_t axis, std::string_view letters) {
  std::vector<int> chosen;
  for (const SpmdOp& op : problem.ops()) {
    int first = 0;  // all of it everywhere
    for (const char letter : letters) {
      for (size_t c = 0; first == 0 && c < op.choices->size(); ++c) {
        if ((*op.choices)[c].rule[axis].letter == letter) first = static_cast<int>(c);
      }
    }
    chosen.push_back(first);
  }
  return AsChosen(problem, axis, chosen);
}

SpmdChoices Descend(SpmdProblem& problem, FixedAxis fixed, size_t most_states) {
  constexpr double kWorthwhile = 1 - 1e-6;
  SpmdChoices best = SearchFolded(problem, {most_states, kManyStates, &fixed.restriction});
  while (!problem.late()) {
    fixed = AsChosen(problem, 1 - fixed.axis, best.choices);
    SpmdChoices next = SearchFolded(problem, {most_states, kManyStates, &fixed.restriction});
    const bool better = next.seconds < kWorthwhile * best.seconds;
    if (next.seconds <= best.seconds) best = std::move(next);
    if (!better) break;
  }
  return best;
}

}  // namespace

std::vector<SpmdChoices> SearchByAxis(SpmdProblem& problem) {
  const std::vector<FixedAxis> starts = {DividedBy(problem, 0, "b"), DividedBy(problem, 0, "eb"),
                                         DividedBy(problem, 0, ""), DividedBy(problem, 1, "b")};
  std::vector<SpmdChoices> found;
  for (size_t k = 0; k < starts.size(); ++k) {
    const bool again =
        std::any_of(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(k),
                    [&](const FixedAxis& one) { return one.restriction == starts[k].restriction; });
    if (again || (problem.late() && !found.empty())) continue;
    found.push_back(Descend(problem, starts[k], kRough));
  }
  const auto best = std::min_element(
      found.begin(), found.end(),
      [](const SpmdChoices& a, const SpmdChoices& b) { return a.seconds < b.seconds; });
  if (!problem.late()) *best = ImproveByAxis(problem, best->choices);
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
