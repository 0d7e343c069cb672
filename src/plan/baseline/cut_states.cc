#include "plan/baseline/cut_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/baseline/layer_graph.h"

namespace heddle {
namespace {

CutState Measure(const LayerGraph& graph, const LayerSet& set) {
  CutState state;
  for (size_t l = 0; l < graph.layers.size(); ++l) {
    if (!set.Has(l)) continue;
    const LayerGraph::Layer& layer = graph.layers[l];
    state.seconds += layer.seconds;
    state.parameter_bytes += layer.parameter_bytes;
    ++state.layers;
    if (std::any_of(layer.after.begin(), layer.after.end(),
                    [&](size_t reader) { return !set.Has(reader); })) {
      state.crossing_bytes += layer.activation_bytes;
    }
  }
  return state;
}

std::vector<LayerSet> Prefixes(const LayerGraph& graph) {
  std::vector<LayerSet> sets;
  LayerSet prefix(graph.layers.size());
  for (size_t l = 0; l < graph.layers.size(); ++l) {
    prefix.Add(l);
    sets.push_back(prefix);
  }
  return sets;
}

}  // namespace

CutStates CutStates::Of(const LayerProfile& profile, size_t limit) {
  CutStates result;
  LayerGraph graph = LayerGraph::Of(profile);
  std::vector<LayerSet> sets = ClosedSets(graph, limit);
  if (sets.empty() && !graph.layers.empty()) {
    graph = graph.WithoutChains();
    sets = ClosedSets(graph, limit);
    result.note_ = fmt::format("more than {} states: no cut inside a run without branches", limit);
  }
  if (sets.empty() && !graph.layers.empty()) {
    sets = Prefixes(graph);
    result.note_ = fmt::format("more than {} states: cuts along one topological order only", limit);
  }
  for (size_t s = 0; s < sets.size(); ++s) {
    result.states_.push_back(Measure(graph, sets[s]));
    std::vector<int> within;
    for (size_t smaller = 0; smaller < s; ++smaller) {
      if (sets[smaller].Within(sets[s])) within.push_back(static_cast<int>(smaller));
    }
    result.within_.push_back(std::move(within));
  }
  return result;
}

CutStates CutStates::OfChain(std::vector<CutState> states) {
  CutStates result;
  result.states_ = std::move(states);
  std::vector<int> within;
  for (int s = 0; s < result.size(); ++s) {
    result.within_.push_back(within);
    within.push_back(s);
  }
  return result;
}

}  // namespace heddle
