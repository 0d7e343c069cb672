// Every SPMD program of a small problem.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "plan/spmd/problem.h"

namespace heddle {

// The least cost of having all of `wanted`, by making one layout after the other in every order.
inline double TreeByTrying(const ConversionTable& table, LayoutSet have, LayoutSet wanted, int most,
                           double limit) {
  if ((wanted & ~have) == 0) return 0;
  if (most == 0) return kNever;
  double least = limit;
  for (int to = 0; to < table.space().size(); ++to) {
    if ((have & OneLayout(to)) != 0) continue;
    const double seconds = table.SecondsFrom(have, to);
    if (seconds >= least) continue;
    least = std::min(least, seconds + TreeByTrying(table, have | OneLayout(to), wanted, most - 1,
                                                   least - seconds));
  }
  return least;
}

// Every combination of rules, and for each tensor every tree of conversions.
class BruteForce {
 public:
  // Of the programs for which that is true.
  using Allowed = std::function<bool(const std::vector<int>& choices)>;
  explicit BruteForce(SpmdProblem& problem, Allowed allowed = nullptr)
      : problem_(problem),
        allowed_(std::move(allowed)),
        sources_(problem.graph().tensors().size(), -1),
        wanted_(problem.graph().tensors().size(), 0) {}

  // Infinite: there is none.
  double Run() {
    Try(0, 0);
    return best_;
  }

 private:
  void Try(size_t op, double seconds) {
    if (op == problem_.ops().size()) {
      for (size_t t = 0; t < sources_.size(); ++t) {
        if (sources_[t] >= 0) seconds += Tree(static_cast<int>(t));
      }
      if (seconds < best_ && (!allowed_ || allowed_(choices_))) best_ = seconds;
      return;
    }
    if (seconds >= best_) return;
    const SpmdOp& made = problem_.ops()[op];
    for (size_t c = 0; c < made.choices->size(); ++c) {
      const OpChoice& choice = (*made.choices)[c];
      const std::vector<int> sources = sources_;
      const std::vector<LayoutSet> wanted = wanted_;
      bool agrees = true;
      for (size_t t = 0; t < made.touches.size(); ++t) {
        const auto tensor = static_cast<size_t>(made.touches[t].tensor);
        if (made.touches[t].produces) {
          agrees = agrees && (sources_[tensor] < 0 || sources_[tensor] == choice.layouts[t]);
          sources_[tensor] = choice.layouts[t];
        } else {
          wanted_[tensor] |= OneLayout(choice.layouts[t]);
        }
      }
      choices_.push_back(static_cast<int>(c));
      if (agrees) Try(op + 1, seconds + choice.seconds);
      choices_.pop_back();
      sources_ = sources;
      wanted_ = wanted;
    }
  }

  double Tree(int tensor) {
    const auto at = static_cast<size_t>(tensor);
    const auto key = std::tuple(problem_.kind_of(tensor), sources_[at], wanted_[at]);
    const auto [found, fresh] = trees_.try_emplace(key);
    if (fresh) {
      const int most = std::popcount(wanted_[at]) + 1;
      found->second = TreeByTrying(problem_.facts(tensor).conversions(), OneLayout(sources_[at]),
                                   wanted_[at], most, kNever);
    }
    return found->second;
  }

  SpmdProblem& problem_;
  Allowed allowed_;
  std::vector<int> choices_;
  std::vector<int> sources_;
  std::vector<LayoutSet> wanted_;
  std::map<std::tuple<int, int, LayoutSet>, double> trees_;
  double best_ = kNever;
};

}  // namespace heddle
