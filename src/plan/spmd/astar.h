// A* over the folded order: the cheapest program, and a proof of how near to it the best one is.
//
// A state is the facts of the tensors that are live after some steps (frontier.h); g is what its
// steps cost, h the potentials' lower bound of the rest (potentials.h, admissible and consistent).
// States wait in one queue for each step. A round takes the most promising few of every queue, from
// the first step to the last, which finds programs early; then the most promising of all, which
// raises the bound. Whoever stops early has both: the cheapest program so far, and the least g + h
// of what waits, below which there is no program (Hart, Nilsson and Raphael 1968; the rounds are
// the column search of Vadlamudi et al. 2012).
//
// With memory limits a state has labels (g, bytes): one is dropped for another that has no more of
// either, or when the bytes that all programs still add exceed the room. h then has prices for
// bytes: where they are scarce that bound is the higher one, and the higher one counts.
//
//   const AStarResult found = SearchAStar(problem, {.incumbent = &folded.choices});
//   found.best.seconds;      // at most that of the incumbent
//   found.bound;             // at most any program's; equal to the above when the search is done
//
// Both are of the additive cost at the mesh's ratios. What is simulated may be less than the bound:
// exchanges overlap with arithmetic, and devices wait only where they meet.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "plan/deadline.h"
#include "plan/spmd/frontier.h"
#include "plan/spmd/memory_limits.h"

namespace heddle {

struct AStarOptions {
  const std::vector<int>* incumbent = nullptr;  // choices known already, that fit; null: none
  int64_t most_expanded = 20'000;               // states
  int most_passes = 60;                         // of the potentials
  const MemoryLimits* limits = nullptr;         // null: memory does not matter
  bool byte_prices = true;                      // under limits a second bound, which takes longer
  // What the limits let pass may still not fit. Null: it does.
  std::function<bool(const std::vector<int>& choices)> fits = nullptr;
  Deadline deadline = {};
};

struct AStarResult {
  SpmdChoices best{std::numeric_limits<double>::infinity(), {}};  // infinite: none was found
  double bound = 0;
  double root_bound = 0;  // before any state was expanded
  int64_t expanded = 0;

  // Up to rounding.
  bool proven() const { return bound >= best.seconds * (1 - 1e-9); }
  // How much more than the cheapest `best` may cost, as a part of the bound.
  double gap() const { return proven() ? 0 : best.seconds / bound - 1; }
};

AStarResult SearchAStar(SpmdProblem& problem, const AStarOptions& options = {});

}  // namespace heddle
