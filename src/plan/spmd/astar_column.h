// StateColumn: the states of A* after some steps, and the queue of those that wait.
//
// States with the same facts are labels of each other: of two, the one that has more seconds and
// more bytes than the other is dropped. Without bytes one is left.
#pragma once

#include <cstdint>
#include <deque>
#include <queue>
#include <unordered_map>
#include <vector>

#include "plan/spmd/frontier.h"

namespace heddle {

using Facts = std::vector<FactId>;

class StateColumn {
 public:
  struct State {
    const Facts* facts = nullptr;
    double seconds = 0;         // g
    std::vector<double> bytes;  // so far, by kind of device; empty: no limits
    uint32_t parent = 0;        // in the column before
    uint32_t choice = 0;        // of the step between
    bool waits = true;
  };
  struct Entry {
    double promise = 0;  // g + h
    uint32_t state = 0;
    bool operator>(const Entry& other) const {
      return promise != other.promise ? promise > other.promise : state > other.state;
    }
  };

  // Unless another label is as good in everything.
  void Offer(Facts facts, State state, double promise);

  // The most promising that waits; null: none does. Valid until the next change.
  const Entry* Top();
  // The same, no longer waiting. REQUIRES: there is one.
  uint32_t Take();

  const State& state(uint32_t number) const { return states_[number]; }

 private:
  struct FactsHash {
    size_t operator()(const Facts& facts) const;
  };

  std::unordered_map<Facts, std::vector<uint32_t>, FactsHash> labels_;
  std::deque<State> states_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace heddle
