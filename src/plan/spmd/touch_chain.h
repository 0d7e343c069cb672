// TouchChain: what can become of a tensor, from its first touch by an op to its last.
//
// A level is a number of touches so far; on each there are the facts that the tensor may have then
// (facts.h), numbered from 0. A touch leads from level to level: for each fact, and each slot (a
// layout, or several where an op has the tensor as more than one operand, in which the op may touch
// it), the fact afterwards and what that adds to the cost. After the last touch nothing has to be
// remembered.
//
//   level   0         1              2              3
//           nothing ─►R     ─►(R; S0)     ─► …     ─►nothing to remember
//                   ─►S0    ─►(S0; R)
//                     made    wanted
//
// Where a level would have too many facts (a tensor with many readers on two axes), they are one
// from there on, and touches add nothing: less than the truth, which is what bounds need.
#pragma once

#include <map>
#include <vector>

#include "plan/spmd/problem.h"

namespace heddle {

// How an op touches a tensor.
struct TouchManner {
  std::vector<bool> produces;             // by operand, as a rule there is one
  std::vector<std::vector<int>> layouts;  // by slot, of each operand
  std::vector<int> slots;                 // by choice of the op
};
TouchManner MannerOf(const SpmdOp& op, const std::vector<size_t>& touches);

struct TouchChain {
  struct Touch {
    size_t slots = 0;
    std::vector<int> next;     // [fact, slot]: number in the next level; -1: producers disagree
    std::vector<double> step;  // [fact, slot]: seconds
  };
  // A fact by what it is: a FactTable has no room for those of all levels.
  struct Fact {
    int source = FactTable::kUnknown;
    LayoutSet wanted = 0;
    auto operator<=>(const Fact&) const = default;
  };
  std::vector<Touch> touches;
  std::vector<size_t> sizes;                 // facts by level
  std::vector<std::map<Fact, int>> numbers;  // by level; empty: they are one

  int NumberOf(size_t level, const FactTable& table, FactId fact) const;
};

TouchChain ChainOf(FactTable& table, const std::vector<const TouchManner*>& manners,
                   size_t most_facts = 20'000);

}  // namespace heddle
