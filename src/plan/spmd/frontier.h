// Frontier: an order in which a search looks at the ops, and what it has to remember on the way.
//
// A tensor is live while some of the ops that touch it have been looked at and others have not. A
// state of a search is one fact for every live tensor; what happened before does not matter beyond
// its cost. Any order of the ops is right, since costs do not depend on it; a good one keeps few
// tensors live.
#pragma once

#include <map>
#include <vector>

#include "plan/spmd/problem.h"

namespace heddle {

class MemoryLimits;

// Some ops looked at together. What only they touch is not worth remembering.
struct FrontierStep {
  std::vector<int> ops;
  std::vector<int> live;                // tensors before the step
  std::vector<int> touched;             // tensors that the ops touch, each once
  std::vector<int> place;               // of each touched one in `live`; -1: new
  std::vector<std::vector<int>> touch;  // by op, of each of its Touches the index in `touched`
  std::vector<bool> closes;             // by `touched`: nobody touches it afterwards
  // What is live afterwards: its place in `live`, or -1 - its index in `touched`.
  std::vector<int> after;
  // By `after`: a sum of which some terms are still to come. They must have the layout of the
  // first, so that one layout is no substitute for another.
  std::vector<bool> open_sum;
  int kind = 0;  // steps of one kind differ in the names of their ops and tensors alone
};

// FactTable::Gap, where sums may be open.
inline double GapOf(FactTable& table, FactId a, FactId b, bool open_sum) {
  return open_sum && table.source(a) != table.source(b) ? kNever : table.Gap(a, b);
}

using OpOrder = std::vector<std::vector<int>>;

std::vector<FrontierStep> FrontierSteps(const SpmdProblem& problem, const OpOrder& order);

// The graph's order of ops, one by one.
OpOrder ProgramOrder(const SpmdProblem& problem);
// Layer by layer, forward, backward and updates together, in a layer so that little is live; an
// update together with what makes its gradient (folded_order.cc).
OpOrder FoldedOrder(const SpmdProblem& problem);

// One way to do a step: the choices of its ops, the facts of `touched` afterwards, and what it adds
// to the cost (conversions are paid as soon as they are known to be necessary).
struct Outcome {
  uint32_t choices = 0;  // ChoicesOf takes them apart
  double seconds = 0;
  std::vector<FactId> facts;
  std::vector<double> bytes;  // kept, by kind of device; empty: nothing, or nobody asks
};
std::vector<int> ChoicesOf(const SpmdProblem& problem, const FrontierStep& step, uint32_t choices);

// The choices that a search may take, by op; none listed: all of them.
struct Restriction {
  std::vector<std::vector<int>> choices;

  const std::vector<int>& Of(int op) const { return choices[static_cast<size_t>(op)]; }
  bool operator==(const Restriction&) const = default;
};

// The outcomes of one step, found once for each combination of facts of what it touches.
class StepOutcomes {
 public:
  // With `prune` without those that another one can become by conversions for less: as the rest of
  // the state is the same, this loses nothing. With limits that one must keep no more bytes either.
  StepOutcomes(SpmdProblem& problem, const FrontierStep& step, const Restriction* restriction,
               bool prune, const MemoryLimits* limits = nullptr);

  // REQUIRES: one fact per tensor touched, kNothing for new ones.
  const std::vector<Outcome>& Of(const std::vector<FactId>& touched);

 private:
  const std::vector<Outcome>& OfOp(size_t number, const std::vector<FactId>& facts);
  void Prune(std::vector<Outcome>& outcomes, bool last) const;
  bool MayBeOpenSum(size_t touched, bool last) const;

  SpmdProblem& problem_;
  const FrontierStep& step_;
  const Restriction* restriction_;
  bool prune_;
  const MemoryLimits* limits_;                                              // may be null
  std::vector<std::map<std::vector<FactId>, std::vector<Outcome>>> by_op_;  // facts of its Touches
  std::map<std::vector<FactId>, std::vector<Outcome>> outcomes_;
};

// What a search finds: a choice for each op, in the graph's order.
struct SpmdChoices {
  double seconds = 0;
  std::vector<int> choices;
};

}  // namespace heddle
