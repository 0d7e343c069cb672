#include "report/plan/spmd_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "report/terminal_text.h"

namespace heddle {
namespace {

// Of many, equal neighbours once, with how many they are.
std::string VectorText(const std::vector<double>& ratios) {
  const bool even = std::all_of(ratios.begin(), ratios.end(),
                                [&](double r) { return std::abs(r - ratios[0]) < 1e-9; });
  if (even) return "even";
  constexpr size_t kFew = 8;
  std::vector<std::string> parts;
  for (size_t first = 0; first < ratios.size();) {
    size_t end = first + 1;
    const auto text = [&](size_t k) { return fmt::format("{:.3f}", ratios[k]); };
    while (ratios.size() > kFew && end < ratios.size() && text(end) == text(first)) ++end;
    parts.push_back(text(first) + (end - first > 1 ? fmt::format(" ×{}", end - first) : ""));
    first = end;
  }
  return Join(parts, parts.size() < ratios.size() ? ", " : " ");
}

}  // namespace

std::string ShortName(const std::string& name, const std::string& layer) {
  const size_t at = name.find(layer + ".");
  return at == std::string::npos ? name : name.substr(0, at) + name.substr(at + layer.size() + 1);
}

std::string SharedName(const std::string& name, const std::set<std::string, std::less<>>& layers) {
  std::vector<std::string> kept;
  for (size_t at = 0; at <= name.size();) {
    // The longest name of a layer that begins here: it may have dots itself.
    size_t layer_end = std::string::npos;
    for (size_t end = name.find('.', at); end != std::string::npos; end = name.find('.', end + 1)) {
      if (layers.contains(std::string_view(name).substr(at, end - at))) layer_end = end;
    }
    if (layer_end == std::string::npos) {
      layer_end = std::min(name.find('.', at), name.size());
      const std::string part = name.substr(at, layer_end - at);
      const bool sum = part.starts_with("sum") && ParseInteger(part.substr(3)).has_value();
      kept.emplace_back(sum ? "sum" : part);
    }
    at = layer_end + 1;
  }
  return Join(kept, ".");
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
  return end - first == 1 ? name
                          : fmt::format("{} … {} ×{}", name, graph.layers()[end - 1], end - first);
}

std::string LayersText(const Graph& graph, const std::vector<size_t>& layers) {
  const size_t first = layers.front(), last = layers.back();
  if (last - first + 1 == layers.size()) return LayersText(graph, first, last + 1);
  const auto name = [&](size_t k) { return graph.layers()[layers[k]]; };
  if (layers.size() == 2) return name(0) + " " + name(1);
  return fmt::format("{} {} {}{} ×{}", name(0), name(1), layers.size() > 3 ? "… " : "",
                     name(layers.size() - 1), layers.size());
}

std::string RatiosText(const SpmdPlan& spmd, int width) {
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
  return FittedLines(out, width);
}

}  // namespace heddle
