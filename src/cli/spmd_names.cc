#include "cli/spmd_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace heddle {
namespace {

std::string VectorText(const std::vector<double>& ratios) {
  const bool even = std::all_of(ratios.begin(), ratios.end(),
                                [&](double r) { return std::abs(r - ratios[0]) < 1e-9; });
  if (even) return "even";
  std::vector<std::string> parts;
  for (const double ratio : ratios) parts.push_back(fmt::format("{:.3f}", ratio));
  return Join(parts, " ");
}

}  // namespace

std::string ShortName(const std::string& name, const std::string& layer) {
  const size_t at = name.find(layer + ".");
  return at == std::string::npos ? name : name.substr(0, at) + name.substr(at + layer.size() + 1);
}

std::string StateText(const SpmdPlan& spmd, const Layout& layout) {
  return spmd.mesh.size() == 1 ? NameOf(layout[1]) : NameOf(layout);
}

std::string RuleText(const SpmdPlan& spmd, const OpRule& rule) {
  const auto axis = [](const AxisRule& one) {
    if (one.letter != 0) return std::string(1, one.letter);
    return std::string(one.partial != 0 ? "+" : "-");
  };
  return spmd.mesh.size() == 1 ? axis(rule[1]) : axis(rule[0]) + "." + axis(rule[1]);
}

std::string LayersText(const Graph& graph, size_t first, size_t end) {
  const std::string& name = graph.layers()[first];
  return end - first == 1 ? name : name + " … " + graph.layers()[end - 1];
}

std::string RatiosText(const SpmdPlan& spmd) {
  std::string out;
  const char* const names[] = {"between nodes", "in a node"};
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = axis == 0 ? spmd.mesh.size() : spmd.mesh[0].size();
    if (places == 1) continue;
    for (size_t k = 0; k < spmd.ratios[axis].size(); ++k) {
      out += fmt::format("ratios      {}{}: {}\n", spmd.mesh.size() == 1 ? "devices" : names[axis],
                         k == 0 ? "" : fmt::format(" '{}", k), VectorText(spmd.ratios[axis][k]));
    }
  }
  return out;
}

}  // namespace heddle
