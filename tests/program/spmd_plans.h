// SPMD plans for tests: a rule for every op in the graph's order, conversions put in as needed. How
// rules are chosen is the caller's affair; Follow picks whatever fits best to what is there.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "program/plan/plan.h"
#include "program/plan/spmd_conversion.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

class SpmdPlanMaker {
 public:
  SpmdPlanMaker(const Graph& graph, std::vector<std::vector<std::string>> mesh,
                std::array<std::vector<std::vector<double>>, kMeshAxes> ratios)
      : g_(graph), facts_(graph.tensors().size()), producers_(graph.tensors().size(), 0) {
    plan_.mesh = std::move(mesh);
    plan_.ratios = std::move(ratios);
    for (const Op& op : graph.ops()) {
      for (const Operand& output : op.outputs) ++producers_[Index(output.tensor)];
    }
  }

  // Of every parameter, before the first op.
  void Store(const std::function<Layout(const Tensor&)>& layout_of) {
    for (const Parameter& parameter : g_.parameters()) {
      const Layout layout = layout_of(g_.tensor(parameter.tensor));
      plan_.storage.push_back({parameter.tensor, layout});
      facts_[Index(parameter.tensor)][layout] = {};
      for (const TensorId state : parameter.states) facts_[Index(state)][layout] = {};
    }
  }

  // All ops, each under the rule that `choose` gives it; updates where their parameter is stored.
  SpmdPlan Make(const std::function<OpRule(const Op&)>& choose) {
    for (size_t k = 0; k < g_.ops().size(); ++k) {
      const Op& op = g_.ops()[k];
      const bool update = op.phase == Phase::kUpdate && op.kind != OpKind::kSquareSum;
      Compute(OpId{static_cast<int32_t>(k)}, update ? UpdateRule(op) : choose(op));
    }
    return plan_;
  }

  bool IsData(TensorId id) const { return g_.tensor(id).role == Role::kInput; }

  // How much must be exchanged to bring the op's inputs into the rule's layouts.
  double CostOf(const Op& op, const OpRule& rule) const {
    double cost = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i].tensor;
      const Layout layout = InputLayout(op, i, rule);
      if (IsData(id)) {
        if (HasPartial(layout)) return kImpossible;
        continue;
      }
      const auto steps = Steps(id, layout);
      if (!steps) return kImpossible;
      const double weight = g_.tensor(id).role == Role::kParameter ? 20 : 10;
      for (const auto& [from, to] : *steps) {
        cost += ConversionOf(from, to)->exchanges ? weight : 1;
      }
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const bool whole_numbers = g_.tensor(op.outputs[o].tensor).dtype == DType::kI64;
      if (whole_numbers && HasPartial(OutputLayout(op, o, rule))) return kImpossible;
    }
    return cost;
  }

  // Rules on both axes, with ratio vector `ratios`; those with forbidden letters left out.
  std::vector<OpRule> RulesFor(const Op& op, const std::array<std::string, kMeshAxes>& forbidden,
                               int ratios = 0) const {
    std::array<std::vector<AxisRule>, kMeshAxes> by_axis;
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const size_t places = axis == 0 ? plan_.mesh.size() : plan_.mesh[0].size();
      for (AxisRule rule : RulesOf(op)) {
        if (places == 1 && rule != AxisRule{}) continue;
        if (rule.letter != 0 && forbidden[axis].find(rule.letter) != std::string::npos) continue;
        if (rule.letter != 0) rule.ratios = static_cast<int8_t>(ratios);
        by_axis[axis].push_back(rule);
      }
    }
    std::vector<OpRule> rules;
    for (const AxisRule& outer : by_axis[0]) {
      for (const AxisRule& inner : by_axis[1]) rules.push_back({outer, inner});
    }
    return rules;
  }

  // The rule that needs the least exchange; of equal ones that with most sharding.
  OpRule Follow(const Op& op, const std::array<std::string, kMeshAxes>& forbidden,
                int ratios = 0) const {
    OpRule best{};
    double least = kImpossible;
    for (const OpRule& rule : RulesFor(op, forbidden, ratios)) {
      double cost = CostOf(op, rule);
      for (const AxisRule& axis : rule) cost -= axis.letter != 0 ? 0.5 : 0;
      if (cost >= least) continue;
      least = cost;
      best = rule;
    }
    HEDDLE_CHECK(least < kImpossible);
    return best;
  }

  static constexpr double kImpossible = 1e9;

 private:
  using Terms = std::set<int32_t>;
  using Path = std::vector<std::pair<Layout, Layout>>;

  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }
  static bool HasPartial(const Layout& layout) {
    return layout[0].kind == ShardKind::kPartial || layout[1].kind == ShardKind::kPartial;
  }

  OpRule UpdateRule(const Op& op) const {
    const Layout layout = facts_[Index(op.outputs[0].tensor)].begin()->first;
    for (const Parameter& parameter : g_.parameters()) {
      if (parameter.tensor != op.outputs[0].tensor) continue;
      Layout stored = layout;
      for (const SpmdStorage& storage : plan_.storage) {
        if (storage.parameter == parameter.tensor) stored = storage.layout;
      }
      OpRule rule{};
      for (size_t axis = 0; axis < kMeshAxes; ++axis) {
        if (stored[axis].kind != ShardKind::kSharded) continue;
        rule[axis].letter = op.outputs[0].letters[static_cast<size_t>(stored[axis].dim)];
        rule[axis].ratios = stored[axis].ratios;
      }
      return rule;
    }
    return {};
  }

  // The shortest way from one layout to another.
  std::optional<Path> PathOf(TensorId id, const Layout& from, const Layout& to,
                             bool through_facts = true) const {
    const auto& facts = facts_[Index(id)];
    const bool whole_numbers = g_.tensor(id).dtype == DType::kI64;
    std::map<Layout, Layout> before;
    std::deque<Layout> queue = {from};
    while (!queue.empty()) {
      const Layout at = queue.front();
      queue.pop_front();
      if (at == to) {
        Path path;
        for (Layout step = to; step != from; step = before.at(step)) {
          path.push_back({before.at(step), step});
        }
        std::reverse(path.begin(), path.end());
        return path;
      }
      for (const ShardState& outer : {at[0], to[0], ShardState::Replicated()}) {
        for (const ShardState& inner : {at[1], to[1], ShardState::Replicated()}) {
          const Layout next{outer, inner};
          if (next == from || before.contains(next) || !ConversionOf(at, next)) continue;
          if (whole_numbers && HasPartial(next)) continue;
          if (!through_facts && next != to && facts.contains(next)) continue;
          before[next] = at;
          queue.push_back(next);
        }
      }
    }
    return std::nullopt;
  }

  // Conversions that make the tensor, with all its terms, in this layout.
  std::optional<Path> Steps(TensorId id, const Layout& layout) const {
    const auto& facts = facts_[Index(id)];
    const auto here = facts.find(layout);
    const bool sum = producers_[Index(id)] > 1 && g_.tensor(id).role == Role::kWeightGradient;
    if (!sum) {
      if (here != facts.end()) return Path{};
      std::optional<Path> best;
      for (const auto& fact : facts) {
        const auto path = PathOf(id, fact.first, layout);
        if (path && (!best || path->size() < best->size())) best = path;
      }
      return best;
    }
    // Of the terms that are elsewhere, one layout's at a time, those with most of them first, and
    // past the layouts of others where that is possible.
    const Terms there = here == facts.end() ? Terms{} : here->second;
    const std::pair<const Layout, Terms>* most = nullptr;
    for (const auto& fact : facts) {
      const bool known =
          std::includes(there.begin(), there.end(), fact.second.begin(), fact.second.end());
      if (!known && (most == nullptr || fact.second.size() > most->second.size())) most = &fact;
    }
    if (most != nullptr) {
      const auto path = PathOf(id, most->first, layout, /*through_facts=*/false);
      return path ? path : PathOf(id, most->first, layout);
    }
    return Path{};
  }

  void Compute(OpId id, const OpRule& rule) {
    const Op& op = g_.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId tensor = op.inputs[i].tensor;
      const Layout layout = InputLayout(op, i, rule);
      if (IsData(tensor)) continue;
      for (auto steps = Steps(tensor, layout); !steps->empty(); steps = Steps(tensor, layout)) {
        for (const auto& [from, to] : *steps) Convert(tensor, from, to);
      }
    }
    SpmdStep step;
    step.op = id;
    step.rule = rule;
    plan_.steps.push_back(step);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      facts_[Index(op.outputs[o].tensor)][OutputLayout(op, o, rule)].insert(id.value);
    }
  }

  void Convert(TensorId tensor, const Layout& from, const Layout& to) {
    SpmdStep step;
    step.tensor = tensor;
    step.from = from;
    step.to = to;
    plan_.steps.push_back(step);
    auto& facts = facts_[Index(tensor)];
    const Terms terms = facts.at(from);
    facts[to].insert(terms.begin(), terms.end());
  }

  const Graph& g_;
  SpmdPlan plan_;
  std::vector<std::map<Layout, Terms>> facts_;  // by tensor
  std::vector<size_t> producers_;
};

inline constexpr Layout kEverywhere{};

inline Layout Inner(int dim, int ratios = 0) {
  return {ShardState::Replicated(), ShardState::Sharded(dim, ratios)};
}

// One node with n devices.
inline std::vector<std::vector<std::string>> FlatMesh(size_t devices) {
  std::vector<std::string> names;
  for (size_t d = 0; d < devices; ++d) names.push_back("d" + std::to_string(d));
  return {names};
}

inline bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Data parallel with the given shares: samples are sharded wherever an op has them.
inline SpmdPlan DataParallel(const Graph& graph, const std::vector<std::vector<std::string>>& mesh,
                             const std::vector<double>& shares) {
  SpmdPlanMaker maker(graph, mesh, {{{{1.0}}, {shares}}});
  maker.Store([](const Tensor&) { return kEverywhere; });
  return maker.Make([](const Op& op) {
    OpRule rule{};
    if (op.IndexOf('b') != std::string::npos) rule[1].letter = 'b';
    return rule;
  });
}

// Data parallel with parameters sharded along their first dimension and gathered for use.
inline SpmdPlan ZeroSharded(const Graph& graph, const std::vector<std::vector<std::string>>& mesh,
                            const std::vector<double>& shares) {
  SpmdPlanMaker maker(graph, mesh, {{{{1.0}}, {shares}}});
  maker.Store([](const Tensor&) { return Inner(0); });
  return maker.Make([&](const Op& op) {
    OpRule rule{};
    if (op.IndexOf('b') != std::string::npos) {
      rule[1].letter = 'b';
    } else if (op.kind == OpKind::kSquareSum) {
      rule[1].letter = op.inputs[0].letters[0];
    }
    return rule;
  });
}

// Whatever fits parameters stored as `layout_of` says; letters may be forbidden by axis.
inline SpmdPlan FollowStorage(const Graph& graph, const std::vector<std::vector<std::string>>& mesh,
                              std::array<std::vector<std::vector<double>>, kMeshAxes> ratios,
                              const std::function<Layout(const Tensor&)>& layout_of,
                              const std::array<std::string, kMeshAxes>& forbidden = {}) {
  SpmdPlanMaker maker(graph, mesh, std::move(ratios));
  maker.Store(layout_of);
  return maker.Make([&](const Op& op) { return maker.Follow(op, forbidden); });
}

// Any rule for any op, any ratios, any storage: valid, and seldom sensible. Of a gradient with
// three producers the layouts may rarely be such that conversions meet on their way: refused by the
// check.
inline SpmdPlan RandomSpmdPlan(const Graph& graph,
                               const std::vector<std::vector<std::string>>& mesh, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::array<std::vector<std::vector<double>>, kMeshAxes> ratios;
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = axis == 0 ? mesh.size() : mesh[0].size();
    for (int k = 0; k < 2; ++k) {
      std::vector<double> weights;
      double sum = 0;
      for (size_t p = 0; p < places; ++p) {
        weights.push_back(draw(4) == 0 && p > 0 ? 0.0 : 1.0 + static_cast<double>(draw(4)));
        sum += weights.back();
      }
      for (double& weight : weights) weight /= sum;
      ratios[axis].push_back(std::move(weights));
    }
  }
  SpmdPlanMaker maker(graph, mesh, ratios);
  maker.Store([&](const Tensor& tensor) {
    Layout layout;
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const size_t places = axis == 0 ? mesh.size() : mesh[0].size();
      if (places == 1 || draw(2) == 0) continue;
      layout[axis] = ShardState::Sharded(static_cast<int>(draw(tensor.shape.size())),
                                         static_cast<int>(draw(2)));
    }
    return layout;
  });
  return maker.Make([&](const Op& op) {
    const std::vector<OpRule> rules = maker.RulesFor(op, {}, static_cast<int>(draw(2)));
    for (int attempt = 0; attempt < 50; ++attempt) {
      const OpRule& rule = rules[draw(rules.size())];
      if (maker.CostOf(op, rule) < SpmdPlanMaker::kImpossible) return rule;
    }
    return OpRule{};
  });
}

}  // namespace heddle
