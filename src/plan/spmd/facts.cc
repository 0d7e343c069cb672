#include "plan/spmd/facts.h"

#include <algorithm>

namespace heddle {

FactTable::FactTable(ConversionTable conversions) : conversions_(std::move(conversions)) {
  const int size = conversions_.space().size();
  for (int from = 0; from < size; ++from) {
    bool all = true;
    for (int to = 0; to < size; ++to) {
      const double seconds = conversions_.Seconds(from, to);
      all = all && (seconds == 0 || seconds == kNever);
    }
    gives_all_.push_back(all);
  }
  Intern(kUnknown, 0);
}

FactId FactTable::Intern(int source, LayoutSet wanted) {
  const auto [found, fresh] =
      ids_.try_emplace({source, wanted}, static_cast<FactId>(facts_.size()));
  if (!fresh) return found->second;
  HEDDLE_CHECK(facts_.size() < kUnset);
  Fact fact;
  fact.source = source;
  fact.wanted = wanted;
  fact.paid = source == kUnknown ? 0 : conversions_.TreeSeconds(source, wanted);
  const auto size = static_cast<size_t>(conversions_.space().size());
  fact.after_want.assign(size, kUnset);
  fact.after_produce.assign(size, kUnset);
  facts_.push_back(std::move(fact));
  return found->second;
}

LayoutSet FactTable::WithoutFree(int source, LayoutSet wanted) const {
  LayoutSet kept = wanted;
  for (LayoutSet left = wanted; left != 0;) {
    const int layout = TakeFirst(left);
    LayoutSet others = kept & ~OneLayout(layout);
    if (source != kUnknown) others |= OneLayout(source);
    if (others != 0 && conversions_.SecondsFrom(others, layout) == 0) kept &= ~OneLayout(layout);
  }
  return kept;
}

FactId FactTable::Want(FactId fact, int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[fact].after_want[at] == kUnset) {
    const Fact& old = facts_[fact];
    const LayoutSet wanted = WithoutFree(old.source, old.wanted | OneLayout(layout));
    const FactId made = Intern(old.source, wanted);
    facts_[fact].after_want[at] = made;
  }
  return facts_[fact].after_want[at];
}

FactId FactTable::Produce(FactId fact, int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[fact].after_produce[at] == kUnset) {
    const Fact& old = facts_[fact];
    FactId made = kBroken;
    if (old.source == kUnknown) {
      made = Intern(layout, WithoutFree(layout, old.wanted));
    } else if (old.source == layout) {
      made = fact;
    }
    facts_[fact].after_produce[at] = made;
  }
  return facts_[fact].after_produce[at];
}

// With T(s, W) the least tree and N what else will be wanted, a tree for `a` is: the chain from its
// source to that of b, b's tree for W_b and N, and a chain from there to each layout of W_a:
//   T(s_a, W_a + N) <= d(s_a, s_b) + T(s_b, W_b + N) + sum over W_a of d(s_b + W_b, w).
// If everything is free from s_a, the left side is 0, and T(s_b, W_b + N) at least T(s_b, W_b).
// T(s_a, W_a) and T(s_b, W_b) are paid already.
double FactTable::FindGap(const Fact& a, const Fact& b) const {
  const bool produced = a.source != kUnknown;
  if (produced && gives_all_[static_cast<size_t>(a.source)]) return 0;
  double gap = b.paid - a.paid;
  if (produced) gap += conversions_.Seconds(a.source, b.source);
  LayoutSet from = b.wanted;
  if (produced) from |= OneLayout(b.source);
  for (LayoutSet extra = a.wanted & ~from; extra != 0;) {
    gap += conversions_.SecondsFrom(from, TakeFirst(extra));
  }
  return gap;
}

double FactTable::NewGap(FactId a, FactId b) {
  std::vector<double>& gaps = facts_[a].gaps;
  if (gaps.size() <= b) gaps.resize(facts_.size(), kUnsetGap);
  gaps[b] = a == b ? 0 : FindGap(facts_[a], facts_[b]);
  return gaps[b];
}

}  // namespace heddle
