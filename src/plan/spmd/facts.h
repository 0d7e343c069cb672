// Facts: what a search knows so far about one tensor, as small numbers.
//
// A fact is the layout in which the tensor is produced (unknown until its producer has been looked
// at; searches need not go in the order of the program) and the layouts that its readers want.
// A layout that is free to make from another of the fact is left out, for it changes nothing.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "plan/spmd/conversions.h"

namespace heddle {

using FactId = uint16_t;

// For all tensors of one shape and type.
class FactTable {
 public:
  explicit FactTable(ConversionTable conversions);

  static constexpr FactId kNothing = 0;      // no source, nothing wanted
  static constexpr FactId kBroken = 0xffff;  // two producers that disagree

  FactId Want(FactId fact, int layout);
  FactId Produce(FactId fact, int layout);

  // Of all conversions known to be necessary: none while there is no source.
  double Paid(FactId fact) const { return facts_[fact].paid; }

  // The most that `a` can cost more than `b` from here on, whatever else will be wanted, beyond
  // what is paid; with both, or neither, produced. Not necessarily the least such number.
  double Gap(FactId a, FactId b) {
    const std::vector<double>& gaps = facts_[a].gaps;
    return b < gaps.size() && gaps[b] != kUnsetGap ? gaps[b] : NewGap(a, b);
  }

  int source(FactId fact) const { return facts_[fact].source; }
  LayoutSet wanted(FactId fact) const { return facts_[fact].wanted; }
  ConversionTable& conversions() { return conversions_; }

  static constexpr int kUnknown = -1;  // source of what is not produced yet
  // Of some layouts wanted from a source, those that are not free to make from it or the others.
  LayoutSet WithoutFree(int source, LayoutSet wanted) const;

 private:
  struct Fact {
    int source = kUnknown;
    LayoutSet wanted = 0;
    double paid = 0;
    std::vector<FactId> after_want, after_produce;  // by layout; kUnset: not asked yet
    std::vector<double> gaps;  // by the other fact; negative infinity: likewise
  };
  static constexpr FactId kUnset = 0xfffe;
  static constexpr double kUnsetGap = -kNever;

  FactId Intern(int source, LayoutSet wanted);
  double NewGap(FactId a, FactId b);
  double FindGap(const Fact& a, const Fact& b) const;

  ConversionTable conversions_;
  std::vector<bool> gives_all_;  // by layout: every other is free to make from it
  std::map<std::pair<int, LayoutSet>, FactId> ids_;
  std::vector<Fact> facts_;
};

}  // namespace heddle
