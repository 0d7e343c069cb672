#include "plan/spmd/touch_chain.h"

#include <algorithm>
#include <optional>

namespace heddle {
namespace {

// Nothing where two producers disagree.
std::optional<TouchChain::Fact> After(const FactTable& table, const TouchManner& manner,
                                      TouchChain::Fact fact, size_t slot) {
  for (size_t k = 0; k < manner.produces.size(); ++k) {
    const int layout = manner.layouts[slot][k];
    if (!manner.produces[k]) {
      fact.wanted |= OneLayout(layout);
    } else if (fact.source != FactTable::kUnknown && fact.source != layout) {
      return std::nullopt;
    } else {
      fact.source = layout;
    }
    fact.wanted = table.WithoutFree(fact.source, fact.wanted);
  }
  return fact;
}

// The touch from all facts of a level to those of the next, which it finds.
TouchChain::Touch TouchOf(FactTable& table, const TouchManner& manner, bool last,
                          std::vector<TouchChain::Fact>& facts,
                          std::map<TouchChain::Fact, int>& numbers) {
  const auto paid = [&](const TouchChain::Fact& fact) {
    if (fact.source == FactTable::kUnknown) return 0.0;
    return table.conversions().TreeSeconds(fact.source, fact.wanted);
  };
  TouchChain::Touch touch;
  touch.slots = manner.layouts.size();
  std::vector<TouchChain::Fact> next;
  for (const TouchChain::Fact& before : facts) {
    const double already = paid(before);
    for (size_t slot = 0; slot < touch.slots; ++slot) {
      const auto after = After(table, manner, before, slot);
      touch.step.push_back(after ? paid(*after) - already : kNever);
      int number = touch.step.back() == kNever ? -1 : 0;
      if (number == 0 && !last) {
        const auto [found, fresh] = numbers.try_emplace(*after, static_cast<int>(next.size()));
        if (fresh) next.push_back(*after);
        number = found->second;
      }
      touch.next.push_back(number);
    }
  }
  facts = std::move(next);
  return touch;
}

TouchChain::Touch FreeTouch(size_t facts, size_t slots) {
  return {slots, std::vector<int>(facts * slots, 0), std::vector<double>(facts * slots, 0)};
}

}  // namespace

TouchManner MannerOf(const SpmdOp& op, const std::vector<size_t>& touches) {
  TouchManner manner;
  for (const size_t t : touches) manner.produces.push_back(op.touches[t].produces);
  for (const OpChoice& choice : *op.choices) {
    std::vector<int> layouts;
    for (const size_t t : touches) layouts.push_back(choice.layouts[t]);
    const auto found = std::find(manner.layouts.begin(), manner.layouts.end(), layouts);
    manner.slots.push_back(static_cast<int>(found - manner.layouts.begin()));
    if (found == manner.layouts.end()) manner.layouts.push_back(std::move(layouts));
  }
  return manner;
}

int TouchChain::NumberOf(size_t level, const FactTable& table, FactId fact) const {
  if (numbers[level].empty()) return 0;
  const auto found = numbers[level].find({table.source(fact), table.wanted(fact)});
  HEDDLE_CHECK(found != numbers[level].end());
  return found->second;
}

TouchChain ChainOf(FactTable& table, const std::vector<const TouchManner*>& manners,
                   size_t most_facts) {
  TouchChain chain;
  std::vector<TouchChain::Fact> facts = {TouchChain::Fact{}};
  chain.numbers.emplace_back();
  chain.sizes = {1};
  bool merged = false;
  for (const TouchManner* manner : manners) {
    const bool last = chain.touches.size() + 1 == manners.size();
    // Of a level with many facts the next has even more.
    constexpr size_t kMostWays = 1'000'000;
    const size_t before = chain.sizes.back();
    merged = merged || before * manner->layouts.size() > kMostWays;
    std::map<TouchChain::Fact, int> numbers;
    chain.touches.push_back(merged ? FreeTouch(before, manner->layouts.size())
                                   : TouchOf(table, *manner, last, facts, numbers));
    if (!merged && facts.size() > most_facts) {
      merged = true;
      std::fill(chain.touches.back().next.begin(), chain.touches.back().next.end(), 0);
      numbers.clear();
    }
    chain.sizes.push_back(merged || last ? 1 : facts.size());
    chain.numbers.push_back(std::move(numbers));
  }
  return chain;
}

}  // namespace heddle
