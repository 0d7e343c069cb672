// SumTerms: which terms of a sum a buffer has.
//
// A value is whole, or some of the terms that add up to it. A term is named by the way from the
// value back to where the sum was cut: the op that made the value; the part of the letters that
// this op contracts; and, where an operand was itself a partial sum, that operand and its term.
//
//   y = x w, and the device has k=0:5 of the contraction     {fc, k=0:5}
//   z = y + r, where y is that, and r is somebody else's     {add, operand 0} -> {fc, k=0:5}
//
// Since ops on the way are linear in such operands while all others are whole, the value is the sum
// of its terms, and it is whole when they fill every op's contraction, every operand of an
// addition, and every pair of terms of a product, once. (Pairs come of meshes, where x is a sum
// along one axis and w along the other.)
//
// A weight's gradient is a sum over its producers and over samples as well: its terms carry the
// samples they are of, counted over the whole training. A weight's terms carry its version.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/graph.h"
#include "program/program.h"

namespace heddle {

// A part of a letter that an op contracts, of all that there is.
struct LetterCut {
  char letter = 0;
  Range range, whole;

  auto operator<=>(const LetterCut&) const = default;
};

using PathId = int32_t;

// An operand that is a partial sum, or is cut by itself, and its term.
struct OperandTerm {
  int32_t operand = -1;
  PathId path = -1;

  auto operator<=>(const OperandTerm&) const = default;
};

// The last step of the way. Operands that are not listed are whole.
struct TermPath {
  int32_t op = -1;  // of the graph; -1: a segment of unknown inside, whose layers are the cut
  std::vector<OperandTerm> operands;
  std::vector<LetterCut> cuts;  // by letter; those that are not whole

  auto operator<=>(const TermPath&) const = default;
};

struct SumTerm {
  PathId path = -1;
  double factor = 1;
  Range tag;  // samples of a weight's gradient; version of a weight, as begin

  bool operator==(const SumTerm&) const = default;
};

using SumTerms = std::vector<SumTerm>;  // sorted by path and tag once it is normal
using StateId = int32_t;                // a SumTerms that is known by number

// How often all that belongs to a sum is there: least and most.
struct TimesThere {
  double least = 0, most = 0;

  bool once() const;
};

class TermTable {
 public:
  static constexpr PathId kWholePath = -1;
  static constexpr StateId kWhole = 0;  // all of it, once
  static constexpr StateId kZero = 1;   // no term

  explicit TermTable(const Graph* graph);

  PathId PathOf(TermPath path);
  const TermPath& path(PathId id) const { return paths_[static_cast<size_t>(id)]; }

  StateId StateOf(SumTerms terms);  // normal
  const SumTerms& terms(StateId id) const { return states_[static_cast<size_t>(id)]; }

  // Adds a term; where it continues the last one, that grows.
  static void Add(SumTerms& sum, const SumTerm& term);
  // Sorted, and terms of one kind joined.
  static void Normalise(SumTerms& sum);
  // The same; what is complete becomes whole. Not of gradients of weights.
  void Complete(SumTerms& sum) const;

  // Of a value whose terms have these paths.
  TimesThere TimesOf(std::span<const SumTerm> terms) const;
  // Of what one op adds.
  TimesThere TimesOf(int32_t op, std::span<const SumTerm> terms) const;

  // "f=0:5 of fc1", the first of what is there.
  std::string Describe(const SumTerms& terms) const;

 private:
  TimesThere TimesInCell(int32_t op, std::span<const SumTerm> terms) const;
  TimesThere TimesOfSum(const Op& op, std::span<const SumTerm> terms) const;
  TimesThere TimesOfProduct(const Op& op, std::span<const SumTerm> terms) const;
  PathId TermOf(const SumTerm& term, int32_t operand) const;

  const Graph* graph_;
  std::map<TermPath, PathId> path_ids_;
  std::vector<TermPath> paths_;
  struct Less {
    bool operator()(const SumTerms& a, const SumTerms& b) const;
  };
  std::map<SumTerms, StateId, Less> state_ids_;
  std::vector<SumTerms> states_;
};

}  // namespace heddle
