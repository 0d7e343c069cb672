#include "cli/spmd_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "program/plan/spmd_conversion.h"

namespace heddle {
namespace {

// One line of the table.
struct LayerRow {
  std::string weights, ops, exchanges;
  bool operator==(const LayerRow&) const = default;
};

// The name without that of its layer: block0.fc1.w is fc1.w.
std::string Short(const std::string& name, const std::string& layer) {
  const size_t at = name.find(layer + ".");
  return at == std::string::npos ? name : name.substr(0, at) + name.substr(at + layer.size() + 1);
}

// Of both axes, or only the inner one on a flat mesh.
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
  Rows(const Plan& plan, const Graph& graph) : spmd_(*plan.spmd), g_(graph) {
    const size_t layers = graph.layers().size();
    weights_.resize(layers);
    ops_.resize(layers);
    exchanges_.resize(layers);
    for (const SpmdStorage& storage : spmd_.storage) {
      const auto parameter =
          std::find_if(graph.parameters().begin(), graph.parameters().end(),
                       [&](const Parameter& p) { return p.tensor == storage.parameter; });
      const int32_t layer = parameter->layers.front().value;
      weights_[Index(layer)][StateText(spmd_, storage.layout)].push_back(
          ShortTensor(storage.parameter, layer));
    }
    std::map<TensorId, int32_t> made_in;  // layer of the op that makes it
    for (const SpmdStep& step : spmd_.steps) {
      if (!step.converts()) {
        const Op& op = graph.op(step.op);
        for (const Operand& out : op.outputs) made_in.emplace(out.tensor, op.layer.value);
        if (op.phase == Phase::kUpdate) continue;
        int& count = ops_[Index(op.layer.value)][RuleText(spmd_, step.rule)];
        ++count;
      } else {
        AddExchange(step, made_in);
      }
    }
  }

  LayerRow Of(size_t layer) const {
    std::vector<std::string> ops;
    for (const auto& [rule, count] : ops_[layer]) ops.push_back(fmt::format("{}: {}", rule, count));
    return {Grouped(weights_[layer]), Join(ops, ", "), Grouped(exchanges_[layer])};
  }

 private:
  static size_t Index(int32_t layer) { return static_cast<size_t>(layer); }

  std::string ShortTensor(TensorId id, int32_t layer) const {
    return Short(g_.tensor(id).name, g_.layers()[Index(layer)]);
  }

  void AddExchange(const SpmdStep& step, const std::map<TensorId, int32_t>& made_in) {
    const auto conversion = ConversionOf(step.from, step.to);
    if (!conversion || !conversion->exchanges) return;
    int32_t layer = 0;
    if (const auto made = made_in.find(step.tensor); made != made_in.end()) {
      layer = made->second;
    } else {
      for (const Parameter& parameter : g_.parameters()) {
        if (parameter.tensor == step.tensor) layer = parameter.layers.front().value;
      }
    }
    const std::string kind = fmt::format("{} {}→{}", NameOf(conversion->kind),
                                         StateText(spmd_, step.from), StateText(spmd_, step.to));
    exchanges_[Index(layer)][kind].push_back(ShortTensor(step.tensor, layer));
  }

  const SpmdPlan& spmd_;
  const Graph& g_;
  std::vector<std::map<std::string, std::vector<std::string>>> weights_;
  std::vector<std::map<std::string, int>> ops_;
  std::vector<std::map<std::string, std::vector<std::string>>> exchanges_;
};

// Along the first row or column of the mesh, or of all devices.
Seconds AloneSeconds(const SpmdPlan& spmd, const Graph& graph, const Cluster& cluster,
                     const SpmdStep& step, const Conversion& conversion) {
  const Tensor& tensor = graph.tensor(step.tensor);
  std::vector<std::array<size_t, kMeshAxes>> places;
  for (size_t node = 0; node < spmd.mesh.size(); ++node) {
    for (size_t k = 0; k < spmd.mesh[0].size(); ++k) {
      if (conversion.axis == 0 && k > 0) continue;
      if (conversion.axis == 1 && node > 0) continue;
      places.push_back({node, k});
    }
  }
  const auto part = [&](const Layout& layout, const std::array<size_t, kMeshAxes>& place) {
    return ShardOf(tensor.shape, layout, spmd, place);
  };
  const auto bytes = [&](const Slice& slice) {
    return Bytes{ElementsOf(slice) * SizeOf(tensor.dtype)};
  };
  std::vector<DeviceId> group;
  std::vector<Bytes> sizes;
  for (const auto& place : places) {
    group.push_back(*cluster.FindDevice(spmd.mesh[place[0]][place[1]]));
    switch (conversion.kind) {
      case CollectiveKind::kAllGather:
        sizes.push_back(bytes(part(step.from, place)));
        break;
      case CollectiveKind::kReduceScatter:
        sizes.push_back(bytes(part(step.to, place)));
        break;
      case CollectiveKind::kAllToAll:
        for (const auto& other : places) {
          Slice common = part(step.from, place);
          const Slice wanted = part(step.to, other);
          for (size_t d = 0; d < common.size(); ++d) {
            common[d].begin = std::max(common[d].begin, wanted[d].begin);
            common[d].end = std::max(common[d].begin, std::min(common[d].end, wanted[d].end));
          }
          sizes.push_back(bytes(common));
        }
        break;
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kBroadcast:
        if (sizes.empty()) sizes.push_back(bytes(part(step.to, place)));
        break;
    }
  }
  return NetworkCost(cluster)
      .Collective({conversion.kind, group, sizes, step.algorithm, 0})
      .seconds;
}

std::string RatiosText(const std::vector<double>& ratios) {
  const bool even = std::all_of(ratios.begin(), ratios.end(),
                                [&](double r) { return std::abs(r - ratios[0]) < 1e-9; });
  if (even) return "even";
  std::vector<std::string> parts;
  for (const double ratio : ratios) parts.push_back(fmt::format("{:.3f}", ratio));
  return Join(parts, " ");
}

}  // namespace

std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style) {
  const SpmdPlan& spmd = *plan.spmd;
  const Rows rows(plan, graph);
  TextTable table({{"layers"}, {"weights"}, {"ops divided by"}, {"exchanges"}});
  for (size_t first = 0; first < graph.layers().size();) {
    const LayerRow row = rows.Of(first);
    size_t end = first + 1;
    while (end < graph.layers().size() && rows.Of(end) == row) ++end;
    const std::string& name = graph.layers()[first];
    table.AddRow({end - first == 1 ? name : name + " … " + graph.layers()[end - 1], row.weights,
                  row.ops, row.exchanges});
    first = end;
  }
  std::string out = table.Print(style) + "\n";
  const char* const names[] = {"between nodes", "in a node"};
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = axis == 0 ? spmd.mesh.size() : spmd.mesh[0].size();
    if (places == 1) continue;
    for (size_t k = 0; k < spmd.ratios[axis].size(); ++k) {
      out += fmt::format("ratios      {}{}: {}\n", spmd.mesh.size() == 1 ? "devices" : names[axis],
                         k == 0 ? "" : fmt::format(" '{}", k), RatiosText(spmd.ratios[axis][k]));
    }
  }
  return out;
}

std::string ExchangesText(const Plan& plan, const Graph& graph, const Cluster& cluster,
                          const TableStyle& style) {
  const SpmdPlan& spmd = *plan.spmd;
  struct Exchange {
    Seconds seconds;
    const SpmdStep* step;
    Conversion conversion;
  };
  std::vector<Exchange> exchanges;
  Seconds all;
  for (const SpmdStep& step : spmd.steps) {
    if (!step.converts()) continue;
    const auto conversion = ConversionOf(step.from, step.to);
    if (!conversion || !conversion->exchanges) continue;
    exchanges.push_back(
        {AloneSeconds(spmd, graph, cluster, step, *conversion), &step, *conversion});
    all += exchanges.back().seconds;
  }
  std::stable_sort(exchanges.begin(), exchanges.end(),
                   [](const Exchange& a, const Exchange& b) { return a.seconds > b.seconds; });
  TextTable table({{"exchange"},
                   {"tensor"},
                   {"whole size", Align::kRight},
                   {"from", Align::kRight},
                   {"to"},
                   {"among"},
                   {"alone", Align::kRight}});
  constexpr size_t kMost = 12;
  const char* const groups[] = {"nodes", "a node", "all"};
  for (size_t k = 0; k < std::min(kMost, exchanges.size()); ++k) {
    const Exchange& exchange = exchanges[k];
    const Tensor& tensor = graph.tensor(exchange.step->tensor);
    table.AddRow(
        {fmt::format("{} {}", NameOf(exchange.step->algorithm), NameOf(exchange.conversion.kind)),
         tensor.name, ToText(tensor.bytes()), StateText(spmd, exchange.step->from),
         StateText(spmd, exchange.step->to),
         spmd.mesh.size() == 1 ? "all" : groups[exchange.conversion.axis],
         ToText(exchange.seconds)});
  }
  return table.Print(style) +
         fmt::format("{} exchanges; one after the other, alone, they would take {}.\n",
                     exchanges.size(), ToText(all));
}

}  // namespace heddle
