// heddle explain of an SPMD plan: where every tensor is, and what is exchanged.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "report/plan/spmd_exchanges.h"
#include "report/plan/spmd_names.h"
#include "report/plan/spmd_text.h"
#include "report/terminal_text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

// One exchange of a layer, as it is printed; alike layers have the same.
struct ExchangeLine {
  std::string exchange, tensor, from, to, size, among;
  double alone = 0;
  bool operator==(const ExchangeLine&) const = default;
};

using NamesByState = std::map<std::string, std::vector<std::string>>;

// What is said of a layer.
struct LayerStates {
  NamesByState weights, activations, gradients;
  std::vector<ExchangeLine> exchanges;
  bool operator==(const LayerStates&) const = default;
};

class StatesByLayer {
 public:
  // With `exact` names that no other layer has too, where it has the same tensors.
  StatesByLayer(const Plan& plan, const Graph& graph, bool exact)
      : spmd_(*plan.spmd),
        g_(graph),
        exact_(exact),
        names_(graph.layers().begin(), graph.layers().end()),
        layer_of_(LayersOfTensors(graph)),
        states_(graph.tensors().size()),
        layers_(graph.layers().size()) {
    for (const SpmdStorage& storage : spmd_.storage) See(storage.parameter, storage.layout);
    for (const SpmdStep& step : spmd_.steps) {
      if (step.converts()) {
        See(step.tensor, step.to);
        continue;
      }
      const Op& op = graph.op(step.op);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const bool data = graph.tensor(op.inputs[i].tensor).role == Role::kInput;
        if (data) See(op.inputs[i].tensor, InputLayout(op, i, step.rule));
      }
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        See(op.outputs[o].tensor, OutputLayout(op, o, step.rule));
      }
    }
    for (size_t t = 0; t < states_.size(); ++t) Put(TensorId{static_cast<int32_t>(t)});
  }

  void Add(const SpmdExchange& exchange) {
    const auto layer = static_cast<size_t>(exchange.layer);
    const SpmdStep& step = *exchange.step;
    layers_[layer].exchanges.push_back(
        {fmt::format("{} {}", NameOf(step.algorithm), NameOf(exchange.conversion.kind)),
         Short(step.tensor), StateText(spmd_, step.from), StateText(spmd_, step.to),
         ToText(exchange.bytes), GroupText(exchange), exchange.alone.value});
  }

  const LayerStates& Of(size_t layer) const { return layers_[layer]; }

 private:
  // The states of a tensor in the order in which it gets them.
  void See(TensorId id, const Layout& layout) {
    std::vector<Layout>& states = states_[static_cast<size_t>(id.value)];
    if (std::find(states.begin(), states.end(), layout) == states.end()) states.push_back(layout);
  }

  std::string Short(TensorId id) const {
    const auto layer = static_cast<size_t>(layer_of_[static_cast<size_t>(id.value)]);
    const std::string& name = g_.tensor(id).name;
    return exact_ ? ShortName(name, g_.layers()[layer]) : SharedName(name, names_);
  }

  void Put(TensorId id) {
    const std::vector<Layout>& states = states_[static_cast<size_t>(id.value)];
    const Role role = g_.tensor(id).role;
    if (states.empty() || role == Role::kState || role == Role::kLoss) return;
    std::vector<std::string> names;
    for (const Layout& layout : states) names.push_back(StateText(spmd_, layout));
    LayerStates& layer = layers_[static_cast<size_t>(layer_of_[static_cast<size_t>(id.value)])];
    const bool gradient = role == Role::kGradient || role == Role::kWeightGradient;
    NamesByState& group = role == Role::kParameter ? layer.weights
                          : gradient               ? layer.gradients
                                                   : layer.activations;
    group[Join(names, "→")].push_back(Short(id));
  }

  const SpmdPlan& spmd_;
  const Graph& g_;
  const bool exact_;
  const std::set<std::string, std::less<>> names_;  // of layers
  std::vector<int32_t> layer_of_;                   // by tensor
  std::vector<std::vector<Layout>> states_;         // by tensor
  std::vector<LayerStates> layers_;
};

// "  weights      S1: qkv.w qkv.bias, R: proj.bias", continued under the states.
std::string StatesText(const char* what, const NamesByState& states, int width) {
  if (states.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [state, names] : states) parts.push_back(state + ": " + Join(names, " "));
  constexpr int kIndent = 15;
  std::string text = Wrapped(Join(parts, "; "), width == 0 ? 0 : width - kIndent);
  for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
    text.insert(at + 1, kIndent, ' ');
  }
  return fmt::format("  {:<12} {}", what, text);
}

// How long exchanges take one after the other, by kind, the longest first.
std::string SumText(const std::vector<SpmdExchange>& exchanges, int64_t microbatches) {
  if (exchanges.empty()) return "Nothing is exchanged.";
  std::map<CollectiveKind, std::pair<int, Seconds>> by_kind;
  Seconds all;
  for (const SpmdExchange& exchange : exchanges) {
    auto& [count, seconds] = by_kind[exchange.conversion.kind];
    ++count;
    seconds += exchange.alone;
    all += exchange.alone;
  }
  std::vector<std::pair<CollectiveKind, std::pair<int, Seconds>>> kinds(by_kind.begin(),
                                                                        by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  std::vector<std::string> parts;
  for (const auto& [kind, sum] : kinds) {
    parts.push_back(
        fmt::format("{} {} {}", GroupDigits(sum.first), NameOf(kind), ToText(sum.second)));
  }
  std::string text = fmt::format(
      "{} exchanges; one after the other, alone, they would take {}: {}.",
      GroupDigits(static_cast<int64_t>(exchanges.size())), ToText(all), Join(parts, ", "));
  if (microbatches > 1) {
    text += fmt::format(" Those of activations and of their gradients come {} times, {}.",
                        GroupDigits(microbatches), "once for each microbatch");
  }
  return text;
}

// What is said of one kind of layers.
struct Kind {
  std::vector<size_t> layers;
  std::string name;
};

std::string AllStates(const StatesByLayer& states, const std::vector<Kind>& kinds, int width) {
  std::string out;
  for (const Kind& kind : kinds) {
    const LayerStates& layer = states.Of(kind.layers[0]);
    out += FittedLines(kind.name + "\n", width) + StatesText("weights", layer.weights, width) +
           StatesText("activations", layer.activations, width) +
           StatesText("gradients", layer.gradients, width);
  }
  return out;
}

// Where every tensor is, unless that is long and was not asked for.
std::string StatesOrHint(const StatesByLayer& states, const std::vector<Kind>& kinds, int width,
                         bool all) {
  constexpr int kMostLines = 16;
  std::string text = AllStates(states, kinds, width);
  if (all || std::count(text.begin(), text.end(), '\n') <= kMostLines) return text;
  return Wrapped(
      fmt::format("Where every tensor of the {} kinds of layers is: --all.", kinds.size()), width);
}

// An exchange of all layers of a kind.
struct ExchangeRow {
  const Kind* kind;
  const ExchangeLine* line;

  double seconds() const { return line->alone * static_cast<double>(kind->layers.size()); }
};

std::string ExchangeTable(const StatesByLayer& states, const std::vector<Kind>& kinds,
                          const TableStyle& style, bool all) {
  constexpr size_t kMostRows = 8;
  std::vector<ExchangeRow> rows;
  for (const Kind& kind : kinds) {
    for (const ExchangeLine& line : states.Of(kind.layers[0]).exchanges) {
      rows.push_back({&kind, &line});
    }
  }
  if (rows.empty()) return "";
  const size_t known = rows.size();
  const bool longest = !all && known > kMostRows;
  if (longest) {
    std::stable_sort(rows.begin(), rows.end(), [](const ExchangeRow& a, const ExchangeRow& b) {
      return a.seconds() > b.seconds();
    });
    rows.resize(kMostRows);
  }
  TextTable table({{"layers"},
                   {"exchange"},
                   {"tensor"},
                   {"from", Align::kRight},
                   {"to"},
                   {"whole size", Align::kRight, 1},
                   {"among", Align::kLeft, 2},
                   {"alone", Align::kRight}});
  for (size_t r = 0; r < rows.size(); ++r) {
    const ExchangeLine& line = *rows[r].line;
    const bool same = r > 0 && rows[r - 1].kind == rows[r].kind;
    table.AddRow({same ? "" : rows[r].kind->name, line.exchange, line.tensor, line.from, line.to,
                  line.size, line.among, ToText(Seconds{line.alone})});
  }
  std::string out = table.Print(style);
  if (longest) {
    out += Wrapped(fmt::format("The {} of {} that take longest, in all layers together; --all has "
                               "the others.",
                               kMostRows, GroupDigits(static_cast<int64_t>(known))),
                   style.width);
  }
  return out;
}

}  // namespace

std::string SpmdExplanation(const Plan& plan, const Graph& graph, const Cluster& cluster,
                            const TableStyle& style, bool all) {
  const std::vector<SpmdExchange> exchanges = ExchangesOf(plan, graph, cluster);
  StatesByLayer states(plan, graph, all);
  for (const SpmdExchange& exchange : exchanges) states.Add(exchange);
  std::vector<Kind> kinds;
  const auto alike = [&](size_t a, size_t b) { return !all && states.Of(a) == states.Of(b); };
  for (auto& layers : LayersAlike(graph.layers().size(), alike)) {
    std::string name = LayersText(graph, layers);
    kinds.push_back({std::move(layers), std::move(name)});
  }
  std::string out = StatesOrHint(states, kinds, style.width, all) + "\n";
  out += ExchangeTable(states, kinds, style, all);
  return out + Wrapped(SumText(exchanges, plan.microbatches), style.width, 2) + "\n" +
         RatiosText(*plan.spmd, style.width);
}

}  // namespace heddle
