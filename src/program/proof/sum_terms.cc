#include "program/proof/sum_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace heddle {
namespace {

// Factors are products of a few shares: what is left of their sums is rounding.
constexpr double kTolerance = 1e-9;

bool Equal(double a, double b) { return std::abs(a - b) <= kTolerance; }

auto KeyOf(const SumTerm& term) {
  return std::tuple(term.path, term.tag.begin, term.tag.end, term.factor);
}

// Every cell of the grid that the terms' cuts make, by the middle of each letter.
class CutGrid {
 public:
  CutGrid(const TermTable& table, std::span<const SumTerm> terms) {
    for (const SumTerm& term : terms) {
      if (term.path == TermTable::kWholePath) continue;
      for (const LetterCut& cut : table.path(term.path).cuts) {
        std::vector<int64_t>& at = At(cut);
        at.push_back(std::max(cut.range.begin, cut.whole.begin));
        at.push_back(std::min(cut.range.end, cut.whole.end));
      }
    }
    for (auto& [letter, at] : letters_) {
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
    }
    place_.assign(letters_.size(), 0);
  }

  bool empty() const { return letters_.empty(); }

  bool Next() {
    for (size_t k = 0; k < place_.size(); ++k) {
      if (++place_[k] + 1 < letters_[k].second.size()) return true;
      place_[k] = 0;
    }
    return false;
  }

  bool Contains(const TermPath& path) const {
    for (const LetterCut& cut : path.cuts) {
      for (size_t k = 0; k < letters_.size(); ++k) {
        if (letters_[k].first != cut.letter) continue;
        const int64_t at = letters_[k].second[place_[k]];
        if (at < cut.range.begin || at >= cut.range.end) return false;
      }
    }
    return true;
  }

 private:
  std::vector<int64_t>& At(const LetterCut& cut) {
    for (auto& [letter, at] : letters_) {
      if (letter == cut.letter) return at;
    }
    letters_.push_back({cut.letter, {cut.whole.begin, cut.whole.end}});
    return letters_.back().second;
  }

  std::vector<std::pair<char, std::vector<int64_t>>> letters_;
  std::vector<size_t> place_;
};

}  // namespace

bool TimesThere::once() const { return Equal(least, 1) && Equal(most, 1); }

TermTable::TermTable(const Graph* graph) : graph_(graph) {
  StateOf({{kWholePath, 1, {}}});
  StateOf({});
}

PathId TermTable::PathOf(TermPath path) {
  std::sort(path.cuts.begin(), path.cuts.end());
  const auto [found, is_new] =
      path_ids_.try_emplace(std::move(path), static_cast<PathId>(paths_.size()));
  if (is_new) paths_.push_back(found->first);
  return found->second;
}

bool TermTable::Less::operator()(const SumTerms& a, const SumTerms& b) const {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const SumTerm& x, const SumTerm& y) { return KeyOf(x) < KeyOf(y); });
}

StateId TermTable::StateOf(SumTerms terms) {
  const auto [found, is_new] =
      state_ids_.try_emplace(std::move(terms), static_cast<StateId>(states_.size()));
  if (is_new) states_.push_back(found->first);
  return found->second;
}

void TermTable::Add(SumTerms& sum, const SumTerm& term) {
  constexpr size_t kLooks = 4;  // a gradient has few producers: the one before is near
  const size_t first = sum.size() > kLooks ? sum.size() - kLooks : 0;
  for (size_t k = sum.size(); k-- > first;) {
    SumTerm& last = sum[k];
    if (last.path != term.path) continue;
    if (last.tag == term.tag) {
      last.factor += term.factor;
      return;
    }
    if (last.tag.end == term.tag.begin && last.factor == term.factor && term.tag.size() > 0) {
      last.tag.end = term.tag.end;
      return;
    }
  }
  sum.push_back(term);
}

void TermTable::Normalise(SumTerms& sum) {
  if (sum.size() < 2) return;
  std::sort(sum.begin(), sum.end(),
            [](const SumTerm& a, const SumTerm& b) { return KeyOf(a) < KeyOf(b); });
  SumTerms joined;
  for (const SumTerm& term : sum) Add(joined, term);
  sum = std::move(joined);
}

void TermTable::Complete(SumTerms& sum) const {
  Normalise(sum);
  const bool plain = sum.empty() || (sum.size() == 1 && sum[0].path == kWholePath);
  if (plain) return;
  for (const SumTerm& term : sum) {
    if (term.tag != sum[0].tag) return;  // versions apart are never one
  }
  const TimesThere times = TimesOf(sum);
  if (!Equal(times.least, times.most)) return;
  const SumTerm whole{kWholePath, Equal(times.least, 1) ? 1 : times.least, sum[0].tag};
  sum.assign(1, whole);
}

TimesThere TermTable::TimesOf(std::span<const SumTerm> terms) const {
  double whole = 0;
  int32_t op = -1;
  SumTerms rest;
  for (const SumTerm& term : terms) {
    if (term.path == kWholePath) {
      whole += term.factor;
    } else {
      op = path(term.path).op;
      rest.push_back(term);
    }
  }
  if (rest.empty()) return {whole, whole};
  const TimesThere times = TimesOf(op, rest);
  return {whole + times.least, whole + times.most};
}

TimesThere TermTable::TimesOf(int32_t op, std::span<const SumTerm> terms) const {
  CutGrid grid(*this, terms);
  if (grid.empty()) return TimesInCell(op, terms);
  TimesThere times{INFINITY, -INFINITY};
  do {
    SumTerms inside;
    for (const SumTerm& term : terms) {
      if (grid.Contains(path(term.path))) inside.push_back(term);
    }
    const TimesThere here = TimesInCell(op, inside);
    times.least = std::min(times.least, here.least);
    times.most = std::max(times.most, here.most);
  } while (grid.Next());
  return times;
}

// Where all terms have all of what the op contracts.
TimesThere TermTable::TimesInCell(int32_t op, std::span<const SumTerm> terms) const {
  double whole = 0;
  SumTerms rest;
  for (const SumTerm& term : terms) {
    const TermPath& at = path(term.path);
    if (at.op != op) return {0, INFINITY};  // another sum: never complete
    if (at.operands.empty()) {
      whole += term.factor;
    } else {
      rest.push_back(term);
    }
  }
  if (rest.empty()) return {whole, whole};
  const Op& made = graph_->ops()[static_cast<size_t>(op)];
  const bool adds = InfoOf(made.kind).linearity == Linearity::kAdditive;
  const TimesThere times = adds ? TimesOfSum(made, rest) : TimesOfProduct(made, rest);
  return {whole + times.least, whole + times.most};
}

// The term of an operand: all of it, where it is not listed.
PathId TermTable::TermOf(const SumTerm& term, int32_t operand) const {
  for (const OperandTerm& one : path(term.path).operands) {
    if (one.operand == operand) return one.path;
  }
  return kWholePath;
}

// Every operand is needed.
TimesThere TermTable::TimesOfSum(const Op& op, std::span<const SumTerm> terms) const {
  TimesThere times{INFINITY, -INFINITY};
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    SumTerms own;
    for (const SumTerm& term : terms) {
      const OperandTerm& operand = path(term.path).operands[0];
      if (operand.operand == static_cast<int32_t>(k))
        own.push_back({operand.path, term.factor, {}});
    }
    const TimesThere here = TimesOf(own);
    times.least = std::min(times.least, here.least);
    times.most = std::max(times.most, here.most);
  }
  return times;
}

// Every pair of terms of two operands: for each term of the one, all terms of the other equally
// often.
TimesThere TermTable::TimesOfProduct(const Op& op, std::span<const SumTerm> terms) const {
  const auto all = static_cast<int32_t>(op.inputs.size());
  std::vector<int32_t> operands;
  for (int32_t k = 0; k < all; ++k) {
    const bool listed = std::any_of(terms.begin(), terms.end(), [&](const SumTerm& term) {
      const auto& list = path(term.path).operands;
      return std::any_of(list.begin(), list.end(),
                         [&](const OperandTerm& one) { return one.operand == k; });
    });
    if (listed) operands.push_back(k);
  }
  if (operands.size() > 2) return {0, INFINITY};
  for (size_t first = 0; first < operands.size(); ++first) {
    const int32_t one = operands[first], other = operands[operands.size() - 1 - first];
    std::map<PathId, SumTerms> others;  // by term of the one
    for (const SumTerm& term : terms) {
      const PathId rest = operands.size() > 1 ? TermOf(term, other) : kWholePath;
      others[TermOf(term, one)].push_back({rest, term.factor, {}});
    }
    SumTerms ones;
    bool even = true;
    for (const auto& [path, rest] : others) {
      const TimesThere times = TimesOf(rest);
      even = even && Equal(times.least, times.most);
      ones.push_back({path, times.least, {}});
    }
    if (even) return TimesOf(ones);
  }
  return {0, INFINITY};
}

std::string TermTable::Describe(const SumTerms& terms) const {
  if (terms.empty()) return "no term of it";
  const SumTerm& first = terms.front();
  if (first.path == kWholePath) return fmt::format("{:g} times all of it", first.factor);
  const TermPath* at = &path(first.path);
  while (at->cuts.empty() && !at->operands.empty() && at->operands[0].path != kWholePath) {
    at = &path(at->operands[0].path);
  }
  std::string text;
  for (const LetterCut& cut : at->cuts) {
    text += fmt::format("{}{}={}:{} of {}:{}", text.empty() ? "" : ", ", cut.letter,
                        cut.range.begin, cut.range.end, cut.whole.begin, cut.whole.end);
  }
  const std::string op = at->op < 0 ? "a segment" : graph_->ops()[static_cast<size_t>(at->op)].name;
  if (text.empty()) {
    text = at->operands.empty() ? "all" : fmt::format("operand {}", at->operands[0].operand);
  }
  return fmt::format("{}{} in {}", text, terms.size() > 1 ? " and more" : "", op);
}

}  // namespace heddle
