#include "plan/spmd/astar.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace heddle {
namespace {

struct FactsHash {
  size_t operator()(const std::vector<FactId>& facts) const {
    size_t hash = 14695981039346656037ULL;
    for (const FactId fact : facts) hash = (hash ^ fact) * 1099511628211ULL;
    return hash;
  }
};

// A state with the way it was reached. Costlier ways to a state stay in the queue and are skipped.
struct Visit {
  size_t step = 0;  // the next one
  double seconds = 0;
  int64_t parent = -1;
  int choice = -1;
  const std::vector<FactId>* facts = nullptr;
};

class AStar {
 public:
  explicit AStar(SpmdProblem& problem) : steps_(FrontierSteps(problem, ProgramOrder(problem))) {
    remaining_.assign(steps_.size() + 1, 0);
    for (size_t k = steps_.size(); k-- > 0;) {
      remaining_[k] = remaining_[k + 1] + problem.op(steps_[k].ops[0]).least;
    }
    best_.resize(steps_.size() + 1);
    for (const FrontierStep& step : steps_)
      outcomes_.emplace_back(problem, step, nullptr, /*prune=*/false);
  }

  std::optional<SpmdChoices> Run(int64_t most_states) {
    Offer(0, {}, 0, -1, -1);
    while (!queue_.empty()) {
      const auto [bound, number] = queue_.top();
      queue_.pop();
      const Visit visit = visits_[static_cast<size_t>(number)];
      if (visit.seconds > best_[visit.step].at(*visit.facts)) continue;
      if (visit.step == steps_.size()) return Trace(number);
      Expand(visit, number);
      if (static_cast<int64_t>(visits_.size()) > most_states) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  void Offer(size_t step, std::vector<FactId> facts, double seconds, int64_t parent, int choice) {
    const auto [found, fresh] = best_[step].try_emplace(std::move(facts), seconds);
    if (!fresh && seconds >= found->second) return;
    found->second = seconds;
    queue_.emplace(seconds + remaining_[step], static_cast<int64_t>(visits_.size()));
    visits_.push_back({step, seconds, parent, choice, &found->first});
  }

  void Expand(const Visit& visit, int64_t number) {
    const FrontierStep& step = steps_[visit.step];
    std::vector<FactId> touched;
    for (const int place : step.place) {
      touched.push_back(place < 0 ? FactTable::kNothing
                                  : (*visit.facts)[static_cast<size_t>(place)]);
    }
    for (const Outcome& outcome : outcomes_[visit.step].Of(touched)) {
      std::vector<FactId> facts;
      for (const int from : step.after) {
        facts.push_back(from >= 0 ? (*visit.facts)[static_cast<size_t>(from)]
                                  : outcome.facts[static_cast<size_t>(-1 - from)]);
      }
      Offer(visit.step + 1, std::move(facts), visit.seconds + outcome.seconds, number,
            static_cast<int>(outcome.choices));
    }
  }

  SpmdChoices Trace(int64_t number) const {
    SpmdChoices found{visits_[static_cast<size_t>(number)].seconds,
                      std::vector<int>(steps_.size())};
    for (; visits_[static_cast<size_t>(number)].parent >= 0;
         number = visits_[static_cast<size_t>(number)].parent) {
      const Visit& visit = visits_[static_cast<size_t>(number)];
      found.choices[static_cast<size_t>(steps_[visit.step - 1].ops[0])] = visit.choice;
    }
    return found;
  }

  using Entry = std::pair<double, int64_t>;  // g + h, number of the visit
  std::vector<FrontierStep> steps_;
  std::vector<double> remaining_;  // h, by step
  std::vector<std::unordered_map<std::vector<FactId>, double, FactsHash>> best_;
  std::vector<StepOutcomes> outcomes_;
  std::vector<Visit> visits_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::optional<SpmdChoices> SearchAStar(SpmdProblem& problem, int64_t most_states) {
  return AStar(problem).Run(most_states);
}

}  // namespace heddle
