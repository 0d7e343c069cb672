#include "cli/spmd_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/spmd_exchanges.h"
#include "cli/spmd_names.h"

namespace heddle {
namespace {

// One line of the table.
struct LayerRow {
  std::string weights, ops, exchanges;
  bool operator==(const LayerRow&) const = default;
};

// "S1: fc1.w fc1.bias, R: ln1.scale"; long lists by number.
std::string Grouped(const std::map<std::string, std::vector<std::string>>& groups) {
  std::vector<std::string> parts;
  for (const auto& [key, names] : groups) {
    constexpr size_t kMost = 3;
    parts.push_back(key + ": " +
                    (names.size() <= kMost
                         ? Join(names, " ")
                         : fmt::format("{} {} … ({})", names[0], names[1], names.size())));
  }
  return Join(parts, ", ");
}

class Rows {
 public:
  Rows(const Plan& plan, const Graph& graph)
      : spmd_(*plan.spmd), g_(graph), layer_of_(LayersOfTensors(graph)) {
    const size_t layers = graph.layers().size();
    weights_.resize(layers);
    ops_.resize(layers);
    exchanges_.resize(layers);
    for (const SpmdStorage& storage : spmd_.storage) {
      const size_t layer = LayerOf(storage.parameter);
      weights_[layer][StateText(spmd_, storage.layout)].push_back(Short(storage.parameter, layer));
    }
    for (const SpmdStep& step : spmd_.steps) {
      if (step.converts()) {
        AddExchange(step);
        continue;
      }
      const Op& op = graph.op(step.op);
      if (op.phase == Phase::kUpdate) continue;
      ++ops_[static_cast<size_t>(op.layer.value)][RuleText(spmd_, step.rule)];
    }
  }

  LayerRow Of(size_t layer) const {
    std::vector<std::string> ops;
    for (const auto& [rule, count] : ops_[layer]) ops.push_back(fmt::format("{}: {}", rule, count));
    return {Grouped(weights_[layer]), Join(ops, ", "), Grouped(exchanges_[layer])};
  }

 private:
  size_t LayerOf(TensorId id) const {
    return static_cast<size_t>(layer_of_[static_cast<size_t>(id.value)]);
  }

  std::string Short(TensorId id, size_t layer) const {
    return ShortName(g_.tensor(id).name, g_.layers()[layer]);
  }

  void AddExchange(const SpmdStep& step) {
    const auto conversion = ConversionOf(step.from, step.to);
    if (!conversion || !conversion->exchanges) return;
    const size_t layer = LayerOf(step.tensor);
    const std::string kind = fmt::format("{} {}→{}", NameOf(conversion->kind),
                                         StateText(spmd_, step.from), StateText(spmd_, step.to));
    exchanges_[layer][kind].push_back(Short(step.tensor, layer));
  }

  const SpmdPlan& spmd_;
  const Graph& g_;
  std::vector<int32_t> layer_of_;  // by tensor
  std::vector<std::map<std::string, std::vector<std::string>>> weights_;
  std::vector<std::map<std::string, int>> ops_;
  std::vector<std::map<std::string, std::vector<std::string>>> exchanges_;
};

}  // namespace

std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style) {
  const Rows rows(plan, graph);
  TextTable table({{"layers"}, {"weights"}, {"ops divided by"}, {"exchanges"}});
  for (size_t first = 0; first < graph.layers().size();) {
    const LayerRow row = rows.Of(first);
    size_t end = first + 1;
    while (end < graph.layers().size() && rows.Of(end) == row) ++end;
    table.AddRow({LayersText(graph, first, end), row.weights, row.ops, row.exchanges});
    first = end;
  }
  return table.Print(style) + "\n" + RatiosText(*plan.spmd);
}

}  // namespace heddle
