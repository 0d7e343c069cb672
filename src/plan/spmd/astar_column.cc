#include "plan/spmd/astar_column.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace heddle {
namespace {

bool NoWorse(const StateColumn::State& a, const StateColumn::State& b) {
  return a.seconds <= b.seconds &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), std::less_equal<>());
}

}  // namespace

size_t StateColumn::FactsHash::operator()(const Facts& facts) const {
  size_t hash = 14695981039346656037ULL;
  for (const FactId fact : facts) hash = (hash ^ fact) * 1099511628211ULL;
  return hash;
}

void StateColumn::Offer(Facts facts, State state, double promise) {
  const auto [found, fresh] = labels_.try_emplace(std::move(facts));
  std::vector<uint32_t>& labels = found->second;
  if (std::any_of(labels.begin(), labels.end(),
                  [&](uint32_t other) { return NoWorse(states_[other], state); })) {
    return;
  }
  std::erase_if(labels, [&](uint32_t other) {
    const bool worse = NoWorse(state, states_[other]);
    if (worse) states_[other].waits = false;
    return worse;
  });
  const auto number = static_cast<uint32_t>(states_.size());
  labels.push_back(number);
  state.facts = &found->first;
  states_.push_back(std::move(state));
  queue_.push({promise, number});
}

const StateColumn::Entry* StateColumn::Top() {
  while (!queue_.empty() && !states_[queue_.top().state].waits) queue_.pop();
  return queue_.empty() ? nullptr : &queue_.top();
}

uint32_t StateColumn::Take() {
  const uint32_t number = Top()->state;
  queue_.pop();
  states_[number].waits = false;
  return number;
}

}  // namespace heddle
