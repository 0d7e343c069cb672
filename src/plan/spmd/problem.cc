#include "plan/spmd/problem.h"

#include <algorithm>

namespace heddle {
namespace {

double LeastOf(const std::vector<OpChoice>& choices) {
  double least = kNever;
  for (const OpChoice& choice : choices) least = std::min(least, choice.seconds);
  return least;
}

}  // namespace

SpmdProblem::SpmdProblem(const OpCost& cost, const Cluster& cluster, const SpmdMesh& mesh,
                         SpmdProblemOptions options)
    : cost_(cost),
      cluster_(cluster),
      mesh_(mesh),
      options_(std::move(options)),
      sizes_(mesh),
      exchange_(cluster, mesh) {
  if (options_.alike == nullptr) options_.alike = Alike::Of(graph());
  AddTables();
  for (const Op& op : graph().ops()) AddOp(op);
}

void SpmdProblem::AddTables() {
  for (const TensorId tensor : alike()->one_tensor) {
    tables_.push_back(std::make_unique<FactTable>(
        ConversionTable(graph().tensor(tensor), cluster_, mesh_, sizes_, exchange_)));
  }
  touch_counts_.assign(graph().tensors().size(), 0);
}

void SpmdProblem::AddOp(const Op& op) {
  SpmdOp made;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    const bool output = operands == &op.outputs;
    for (const Operand& operand : *operands) {
      if (!HasLayout(graph(), op, operand, output)) continue;
      made.touches.push_back({operand.tensor.value, output});
      ++touch_counts_[static_cast<size_t>(operand.tensor.value)];
    }
  }
  made.kind = alike()->ops[ops_.size()];
  const auto kind = static_cast<size_t>(made.kind);
  if (kind == choices_.size()) {  // the first of its kind
    choices_.push_back(std::make_unique<std::vector<OpChoice>>(ChoicesOf(op, made)));
  }
  made.choices = choices_[kind].get();
  made.least = LeastOf(*made.choices);
  ops_.push_back(std::move(made));
}

std::vector<OpChoice> SpmdProblem::ChoicesOf(const Op& op, const SpmdOp& made) {
  std::vector<AxisRule> rules;
  for (AxisRule rule : RulesOf(op)) {
    if (rule.letter != 0 && op.extents[op.IndexOf(rule.letter)] < 2) continue;
    rule.ratios = static_cast<int8_t>(rule.letter == 0 ? 0 : RatioGroupOf(rule.letter));
    rules.push_back(rule);
  }
  const std::vector<AxisRule> whole = {AxisRule{}};
  std::vector<OpChoice> choices;
  const std::vector<AxisRule>& outer_rules = mesh_.flat() ? whole : rules;
  for (size_t outer = 0; outer < outer_rules.size(); ++outer) {
    for (size_t inner = 0; inner < rules.size(); ++inner) {
      OpChoice choice{{outer_rules[outer], rules[inner]},
                      {static_cast<int>(outer), static_cast<int>(inner)},
                      0,
                      {},
                      0};
      const std::vector<double> seconds = DeviceSeconds(op, choice.rule);
      choice.seconds = choice.unpriced = *std::max_element(seconds.begin(), seconds.end());
      size_t touch = 0;
      for (const auto* operands : {&op.inputs, &op.outputs}) {
        const bool output = operands == &op.outputs;
        for (size_t k = 0; k < operands->size(); ++k) {
          if (!HasLayout(graph(), op, (*operands)[k], output)) continue;
          const Layout layout =
              output ? OutputLayout(op, k, choice.rule) : InputLayout(op, k, choice.rule);
          FactTable& table = facts(made.touches[touch++].tensor);
          choice.layouts.push_back(table.conversions().space().IndexOf(layout));
        }
      }
      choices.push_back(std::move(choice));
    }
  }
  return choices;
}

void SpmdProblem::SetPrices(std::vector<double> prices) {
  if (prices == prices_) return;
  prices_ = std::move(prices);
  for (size_t kind = 0; kind < choices_.size(); ++kind) {
    const Op& op = graph().op(alike()->one_op[kind]);
    for (OpChoice& choice : *choices_[kind]) {
      choice.seconds = choice.unpriced + (prices_.empty() ? 0 : PriceOf(op, choice.rule));
    }
  }
  for (SpmdOp& op : ops_) op.least = LeastOf(*op.choices);
}

std::vector<double> SpmdProblem::DeviceSeconds(const Op& op, const OpRule& rule) {
  struct Known {
    int type;
    std::vector<int64_t> extents;
    double seconds;
  };
  std::vector<Known> known;
  std::vector<double> result;
  const size_t width = mesh_.places(1);
  for (size_t place = 0; place < mesh_.size(); ++place) {
    std::vector<int64_t> extents = op.extents;
    bool empty = false;
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      if (rule[axis].letter == 0) continue;
      int64_t& extent = extents[op.IndexOf(rule[axis].letter)];
      const size_t at = axis == 0 ? place / width : place % width;
      extent = sizes_.Of(axis, rule[axis].ratios, extent)[at];
      empty = empty || extent == 0;
    }
    if (empty) {
      result.push_back(0);
      continue;
    }
    const int type = cluster_.device(mesh_.device(place)).type;
    const auto found = std::find_if(known.begin(), known.end(), [&](const Known& one) {
      return one.type == type && one.extents == extents;
    });
    if (found != known.end()) {
      result.push_back(found->seconds);
      continue;
    }
    const DeviceTypeSpec& spec = cluster_.types()[static_cast<size_t>(type)];
    result.push_back(cost_.OpSeconds(op, extents, spec).value);
    known.push_back({type, std::move(extents), result.back()});
  }
  return result;
}

// A parameter stands for its gradient and the optimizer's state too: all lie as they are stored.
double SpmdProblem::PriceOf(const Op& op, const OpRule& rule) {
  double price = 0;
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    const TensorId id = op.outputs[k].tensor;
    const Tensor& tensor = graph().tensor(id);
    if (op.phase != Phase::kUpdate && !SavedForBackward(id)) continue;
    if (op.phase == Phase::kUpdate && tensor.role == Role::kWeightGradient) continue;
    ConversionTable& table = facts(id.value).conversions();
    const int layout = table.space().IndexOf(OutputLayout(op, k, rule));
    const double copies = tensor.role == Role::kParameter ? 2 : 1;
    for (size_t place = 0; place < mesh_.size(); ++place) {
      price += prices_[place] * copies * table.bytes() * table.SharesOf(layout)[place];
    }
  }
  return price;
}

double SpmdProblem::SecondsOf(const std::vector<int>& choices) {
  double seconds = 0;
  std::vector<FactId> known(graph().tensors().size(), FactTable::kNothing);
  for (size_t k = 0; k < ops_.size(); ++k) {
    const OpChoice& choice = this->choice(static_cast<int>(k), choices[k]);
    seconds += choice.seconds;
    for (size_t t = 0; t < ops_[k].touches.size(); ++t) {
      const Touch& touch = ops_[k].touches[t];
      FactId& fact = known[static_cast<size_t>(touch.tensor)];
      FactTable& table = facts(touch.tensor);
      fact = touch.produces ? table.Produce(fact, choice.layouts[t])
                            : table.Want(fact, choice.layouts[t]);
      HEDDLE_CHECK(fact != FactTable::kBroken);
    }
  }
  for (size_t t = 0; t < known.size(); ++t) {
    seconds += facts(static_cast<int>(t)).Paid(known[t]);
  }
  return seconds;
}

}  // namespace heddle
