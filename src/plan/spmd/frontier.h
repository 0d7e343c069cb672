// Frontier: an order in which a search looks at the ops, and what it has to remember on the way.
//
// A tensor is live while some of the ops that touch it have been looked at and others have not. A
// state of a search is one fact for every live tensor; what happened before does not matter beyond
// its cost. Any order of the ops is right, since costs do not depend on it; a good one keeps few
// tensors live.
#pragma once

#include <vector>

#include "plan/spmd/problem.h"

namespace heddle {

struct FrontierStep {
  int op = 0;
  std::vector<int> live;     // tensors before the step
  std::vector<int> touched;  // tensors that the op touches, each once
  std::vector<int> place;    // of each touched one in `live`; -1: new
  std::vector<int> touch;    // of each Touch of the op its index in `touched`
  std::vector<bool> closes;  // by `touched`: nobody touches it afterwards
  // What is live afterwards: its place in `live`, or -1 - its index in `touched`.
  std::vector<int> after;
};

std::vector<FrontierStep> FrontierSteps(const SpmdProblem& problem, const std::vector<int>& order);

// The graph's order of ops.
std::vector<int> ProgramOrder(const SpmdProblem& problem);
// Layer by layer, forward, backward and updates together; in a layer so that little is live
// (folded_order.cc).
std::vector<int> FoldedOrder(const SpmdProblem& problem);

// One way to do a step: the choice, the facts of `touched` afterwards, and what it adds to the cost
// (conversions are paid as soon as they are known to be necessary).
struct Outcome {
  int choice = 0;
  double seconds = 0;
  std::vector<FactId> facts;
};
// REQUIRES: one fact per tensor touched, kNothing for new ones.
std::vector<Outcome> OutcomesOf(SpmdProblem& problem, const FrontierStep& step,
                                const std::vector<FactId>& facts);

// `plan/spmd` keeps choices by op, in the graph's order.
struct SpmdChoices {
  double seconds = 0;
  std::vector<int> choices;
};

}  // namespace heddle
