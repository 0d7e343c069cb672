#include "report/plan/spmd_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "report/plan/spmd_exchanges.h"
#include "report/plan/spmd_names.h"
#include "report/text_width.h"

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
      : spmd_(*plan.spmd),
        g_(graph),
        names_(graph.layers().begin(), graph.layers().end()),
        layer_of_(LayersOfTensors(graph)) {
    const size_t layers = graph.layers().size();
    weights_.resize(layers);
    ops_.resize(layers);
    exchanges_.resize(layers);
    for (const SpmdStorage& storage : spmd_.storage) {
      const size_t layer = LayerOf(storage.parameter);
      weights_[layer][StateText(spmd_, storage.layout)].push_back(Short(storage.parameter));
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

  std::string Short(TensorId id) const { return SharedName(g_.tensor(id).name, names_); }

  void AddExchange(const SpmdStep& step) {
    const auto conversion = ConversionOf(step.from, step.to);
    if (!conversion || !conversion->exchanges) return;
    const size_t layer = LayerOf(step.tensor);
    const std::string kind = fmt::format("{} {}→{}", NameOf(conversion->kind),
                                         StateText(spmd_, step.from), StateText(spmd_, step.to));
    exchanges_[layer][kind].push_back(Short(step.tensor));
  }

  const SpmdPlan& spmd_;
  const Graph& g_;
  std::set<std::string, std::less<>> names_;  // of layers
  std::vector<int32_t> layer_of_;             // by tensor
  std::vector<std::map<std::string, std::vector<std::string>>> weights_;
  std::vector<std::map<std::string, int>> ops_;
  std::vector<std::map<std::string, std::vector<std::string>>> exchanges_;
};

}  // namespace

std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style) {
  constexpr size_t kMostRows = 10;
  constexpr int kMostLines = 36;
  const Rows rows(plan, graph);
  std::vector<LayerRow> said;
  for (size_t layer = 0; layer < graph.layers().size(); ++layer) said.push_back(rows.Of(layer));
  const auto kinds =
      LayersAlike(said.size(), [&](size_t a, size_t b) { return said[a] == said[b]; });
  std::string out;
  for (size_t shown = std::min(kinds.size(), kMostRows); shown > 0; --shown) {
    TextTable table({{"layers"}, {"weights"}, {"ops divided by", Align::kLeft, 1}, {"exchanges"}});
    for (size_t k = 0; k < shown; ++k) {
      const LayerRow& row = said[kinds[k][0]];
      table.AddRow({LayersText(graph, kinds[k]), row.weights, row.ops, row.exchanges});
    }
    out = table.Print(style);
    if (shown < kinds.size()) {
      out += Wrapped(fmt::format("… {} more kinds of layers: heddle explain --all has them.",
                                 kinds.size() - shown),
                     style.width);
    }
    if (std::count(out.begin(), out.end(), '\n') <= kMostLines) break;
  }
  return out + "\n" + RatiosText(*plan.spmd, style.width);
}

}  // namespace heddle
