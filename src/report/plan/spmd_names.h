// Names in what is printed about SPMD plans.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "program/plan/plan.h"

namespace heddle {

// The name without that of its layer: block0.fc1.w is fc1.w, g.block0.fc1.w is g.fc1.w.
std::string ShortName(const std::string& name, const std::string& layer);

// The name as layers of a kind share it: without the names of layers in it and the numbers of sums;
// d.block3.res2.y.ln1.dx is d.res2.y.ln1.dx, d.ln1.dx.sum21 is d.ln1.dx.sum.
std::string SharedName(const std::string& name, const std::set<std::string, std::less<>>& layers);

// Of both axes, or only the inner one on a flat mesh.
std::string StateText(const SpmdPlan& spmd, const Layout& layout);

// "b", "b.f"; "-" where everybody does everything, "+" where partial sums stay partial.
std::string RuleText(const SpmdPlan& spmd, const OpRule& rule);

// "block0" or "block0 … block3 ×4"; the same of layers that need not follow each other, where
// "block1 block3 … block9 ×5" shows that they do not. REQUIRES: at least one layer, ascending.
std::string LayersText(const Graph& graph, size_t first, size_t end);
std::string LayersText(const Graph& graph, const std::vector<size_t>& layers);

// Lines "ratios  devices: 0.311 ×2 0.189", for each axis and vector; not wider than `width`.
std::string RatiosText(const SpmdPlan& spmd, int width);

// Layers of which the same is said, by number, in the order of the first of each kind.
template <class Alike>
std::vector<std::vector<size_t>> LayersAlike(size_t layers, Alike alike) {
  std::vector<std::vector<size_t>> kinds;
  for (size_t layer = 0; layer < layers; ++layer) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& known) { return alike(known[0], layer); });
    if (kind == kinds.end()) {
      kinds.push_back({layer});
    } else {
      kind->push_back(layer);
    }
  }
  return kinds;
}

}  // namespace heddle
