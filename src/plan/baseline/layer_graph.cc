#include "plan/baseline/layer_graph.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_set>

namespace heddle {

bool LayerSet::Within(const LayerSet& other) const {
  for (size_t w = 0; w < words_.size(); ++w) {
    if ((words_[w] & ~other.words_[w]) != 0) return false;
  }
  return true;
}

int LayerSet::size() const {
  int count = 0;
  for (const uint64_t word : words_) count += std::popcount(word);
  return count;
}

namespace {

// Which layers stay. What is dropped has no inputs, or no readers, so that order is not touched.
std::vector<bool> Kept(const LayerProfile& profile) {
  std::vector<bool> reads(profile.layers.size(), false), is_read(profile.layers.size(), false);
  for (const auto& [from, to] : profile.edges) {
    reads[static_cast<size_t>(to)] = true;
    is_read[static_cast<size_t>(from)] = true;
  }
  std::vector<bool> kept;
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    const std::string& description = profile.layers[l].description;
    const bool input = !reads[l] && description.starts_with("Input");
    const bool unread = !is_read[l] && description.starts_with("__getitem__");
    kept.push_back(!input && !unread);
  }
  return kept;
}

// Joins groups of layers; group[l] is where layer l goes, ascending along every edge.
LayerGraph Joined(const LayerGraph& graph, const std::vector<size_t>& group, size_t groups) {
  LayerGraph joined;
  joined.layers.resize(groups);
  for (size_t l = 0; l < graph.layers.size(); ++l) {
    const LayerGraph::Layer& from = graph.layers[l];
    LayerGraph::Layer& to = joined.layers[group[l]];
    to.seconds += from.seconds;
    to.parameter_bytes += from.parameter_bytes;
    to.activation_bytes = from.activation_bytes;  // of the last of the run
    for (const size_t next : from.after) {
      if (group[next] == group[l]) continue;
      to.after.push_back(group[next]);
      joined.layers[group[next]].before.push_back(group[l]);
    }
  }
  return joined;
}

}  // namespace

LayerGraph LayerGraph::Of(const LayerProfile& profile) {
  const std::vector<bool> kept = Kept(profile);
  LayerGraph graph;
  std::vector<size_t> place(profile.layers.size());
  for (const int l : profile.TopologicalOrder()) {
    if (!kept[static_cast<size_t>(l)]) continue;
    const ProfiledLayer& layer = profile.layers[static_cast<size_t>(l)];
    place[static_cast<size_t>(l)] = graph.layers.size();
    graph.layers.push_back({layer.forward.value + layer.backward.value,
                            layer.parameter_bytes,
                            layer.activation_bytes,
                            {},
                            {}});
  }
  for (const auto& [from, to] : profile.edges) {
    if (!kept[static_cast<size_t>(from)] || !kept[static_cast<size_t>(to)]) continue;
    graph.layers[place[static_cast<size_t>(from)]].after.push_back(place[static_cast<size_t>(to)]);
    graph.layers[place[static_cast<size_t>(to)]].before.push_back(place[static_cast<size_t>(from)]);
  }
  return graph;
}

LayerGraph LayerGraph::WithoutChains() const {
  std::vector<size_t> group(layers.size());
  size_t groups = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const bool goes_on =
        layers[l].before.size() == 1 && layers[layers[l].before[0]].after.size() == 1;
    group[l] = goes_on ? group[layers[l].before[0]] : groups++;
  }
  return Joined(*this, group, groups);
}

std::vector<LayerSet> LayerGraph::Closures() const {
  std::vector<LayerSet> closures;
  for (size_t l = 0; l < layers.size(); ++l) {
    LayerSet closure(layers.size());
    closure.Add(l);
    for (const size_t before : layers[l].before) closure.Add(closures[before]);
    closures.push_back(std::move(closure));
  }
  return closures;
}

std::vector<LayerSet> ClosedSets(const LayerGraph& graph, size_t limit) {
  if (graph.layers.empty()) return {};
  const std::vector<LayerSet> closures = graph.Closures();
  std::vector<LayerSet> sets = {closures[0]};
  std::unordered_set<std::string> seen = {std::string(sets[0].bytes())};
  for (size_t next = 0; next < sets.size(); ++next) {
    for (size_t l = 0; l < graph.layers.size(); ++l) {
      if (sets[next].Has(l)) continue;
      const auto& before = graph.layers[l].before;
      if (std::none_of(before.begin(), before.end(), [&](size_t b) { return sets[next].Has(b); })) {
        continue;
      }
      LayerSet larger = sets[next];
      larger.Add(closures[l]);
      if (!seen.emplace(larger.bytes()).second) continue;
      if (sets.size() == limit) return {};
      sets.push_back(std::move(larger));
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const LayerSet& a, const LayerSet& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return sets;
}

}  // namespace heddle
