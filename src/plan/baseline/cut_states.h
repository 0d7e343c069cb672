// CutStates: the places where a graph of layers can be cut in two, as PipeDream and DAPPLE see
// them. A state is a set of layers that holds with each layer all it depends on; cutting there
// leaves the set on one side and the rest on the other. Its antichain, the layers whose outputs
// leave the set, is what the authors name it by. A chain of L layers has L states:
//
//   a ─ b ─ c        {a}, {a b}, {a b c}
//   a ─┬ b ┬ d       {a}, {a b}, {a c}, {a b c}, {a b c d}      branches multiply
//      └ c ┘
//
// Invariants: in topological order (smaller sets first); the last state holds every layer that can
// be reached; figures are sums over a state's layers, so that a stage is a difference of two
// states.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/layer_profile.h"

namespace heddle {

struct CutState {
  double seconds = 0;          // forward and backward
  double parameter_bytes = 0;  //
  double crossing_bytes = 0;   // outputs that layers outside of the state read
  int layers = 0;              // how many it holds
};

class CutStates {
 public:
  // Beyond `limit` states the graph is made simpler, as note() tells: first every run of layers
  // without branches becomes one, then only the prefixes of one topological order are kept.
  // Sources described as "Input…" are dropped (the authors place them with the first stage), as
  // are sinks described as "__getitem__…", which nobody reads.
  static constexpr size_t kMostStates = 4096;
  static CutStates Of(const LayerProfile& profile, size_t limit = kMostStates);

  // Each state within all that follow.
  static CutStates OfChain(std::vector<CutState> states);

  int size() const { return static_cast<int>(states_.size()); }
  const CutState& operator[](int state) const { return states_[static_cast<size_t>(state)]; }
  const CutState& back() const { return states_.back(); }

  // The states that lie within `state` and are smaller, ascending.
  const std::vector<int>& Within(int state) const { return within_[static_cast<size_t>(state)]; }

  // Of the stage between two states; `begin` is the first state of the stage, counted as the
  // authors print it: stage (begin, end) holds what state end - 1 has beyond state begin - 1.
  double Seconds(int begin, int end) const {
    return states_[static_cast<size_t>(end - 1)].seconds -
           (begin > 0 ? states_[static_cast<size_t>(begin - 1)].seconds : 0);
  }
  double ParameterBytes(int begin, int end) const {
    return states_[static_cast<size_t>(end - 1)].parameter_bytes -
           (begin > 0 ? states_[static_cast<size_t>(begin - 1)].parameter_bytes : 0);
  }

  // Empty, or what exactness was given up.
  const std::string& note() const { return note_; }

 private:
  std::vector<CutState> states_;
  std::vector<std::vector<int>> within_;
  std::string note_;
};

}  // namespace heddle
