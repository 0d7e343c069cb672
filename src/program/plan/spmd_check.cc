#include "program/plan/spmd_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "program/plan/spmd_conversion.h"

namespace heddle {
namespace {

bool HasPartial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(),
                     [](const ShardState& state) { return state.kind == ShardKind::kPartial; });
}

class SpmdReplay {
 public:
  SpmdReplay(const SpmdPlan& plan, const Graph& graph, const ReplayScope& scope,
             const std::string& where)
      : plan_(plan), g_(graph), scope_(scope), where_(where), facts_(graph.tensors().size()) {
    producers_.resize(graph.tensors().size(), 0);
    for (size_t k = 0; k < graph.ops().size(); ++k) {
      if (!scope.ops[k]) continue;
      for (const Operand& output : graph.ops()[k].outputs) ++producers_[Index(output.tensor)];
    }
    done_.resize(g_.ops().size(), false);
  }

  Status Run() {
    HEDDLE_RETURN_IF_ERROR(Store());
    for (const ReplayPart& part : scope_.parts) {
      for (const BodyArrival& arrival : part.arrives) {
        HEDDLE_RETURN_IF_ERROR(CheckLayout(arrival.tensor, arrival.layout, where_));
        if (HasPartial(arrival.layout)) {
          return BadInput(where_, fmt::format("{} would arrive as a partial sum",
                                              g_.tensor(arrival.tensor).name));
        }
        Put(arrival.tensor, arrival.layout, {});
      }
      for (step_ = part.begin; step_ < part.end; ++step_) {
        const SpmdStep& step = plan_.steps[step_];
        if (!step.converts()) HEDDLE_RETURN_IF_ERROR(CheckPlace(step, part));
        HEDDLE_RETURN_IF_ERROR(step.converts() ? Convert(step) : Compute(step));
      }
      for (const TensorId id : part.leaves) HEDDLE_RETURN_IF_ERROR(Leave(id));
    }
    for (size_t k = 0; k < done_.size(); ++k) {
      if (done_[k] || !scope_.ops[k]) continue;
      return BadInput(where_, fmt::format("op {} is not computed", g_.ops()[k].name),
                      "every op of the model needs one step");
    }
    return Ok();
  }

 private:
  // The terms of a sum that are there; all other tensors have one.
  using Terms = std::set<int32_t>;
  using Facts = std::map<Layout, Terms>;

  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }

  Error Bad(const std::string& what, const std::string& hint = "") const {
    return BadInput(fmt::format("{}: steps[{}]", where_, step_), what, hint);
  }

  // An op belongs to its part of the steps.
  Status CheckPlace(const SpmdStep& step, const ReplayPart& part) const {
    const auto k = static_cast<size_t>(step.op.value);
    if (k >= g_.ops().size() || (scope_.ops[k] && part.Has(g_.ops()[k]))) return Ok();
    return Bad(fmt::format("op {} is of layer {}, {}", g_.ops()[k].name, g_.ops()[k].layer.value,
                           scope_.ops[k] ? "and stands in another part of the stage's steps"
                                         : "which is in another stage"));
  }

  // Somebody waits for it, whole.
  Status Leave(TensorId id) const {
    for (const auto& [layout, terms] : facts_[Index(id)]) {
      if (!HasPartial(layout) && terms.size() == producers_[Index(id)]) return Ok();
    }
    return BadInput(
        where_,
        fmt::format("{} goes to the next stage and is {}", g_.tensor(id).name, LayoutsOf(id)),
        "complete it before, or let it arrive here");
  }

  Status Store() {
    if (plan_.storage.size() != scope_.parameters.size()) {
      return BadInput(where_ + ": storage",
                      fmt::format("has {} parameters, {} {}", plan_.storage.size(), scope_.whose,
                                  scope_.parameters.size()));
    }
    for (size_t p = 0; p < plan_.storage.size(); ++p) {
      const Parameter& parameter = g_.parameters()[static_cast<size_t>(scope_.parameters[p])];
      const SpmdStorage& storage = plan_.storage[p];
      const std::string& name = g_.tensor(parameter.tensor).name;
      const std::string field = fmt::format("{}: storage.{}", where_, name);
      if (storage.parameter != parameter.tensor) {
        return BadInput(field, fmt::format("is not where {} has this parameter", scope_.whose));
      }
      if (HasPartial(storage.layout)) {
        return BadInput(field, "is stored as a partial sum", "store it as R or S");
      }
      HEDDLE_RETURN_IF_ERROR(CheckLayout(parameter.tensor, storage.layout, field));
      Put(parameter.tensor, storage.layout, {});
      for (const TensorId state : parameter.states) Put(state, storage.layout, {});
      storage_of_[parameter.tensor] = storage.layout;
      for (const TensorId state : parameter.states) storage_of_[state] = storage.layout;
    }
    return Ok();
  }

  Status CheckLayout(TensorId id, const Layout& layout, const std::string& field) const {
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const ShardState& state = layout[axis];
      if (state.kind != ShardKind::kSharded) continue;
      if (state.dim < 0 || static_cast<size_t>(state.dim) >= g_.tensor(id).shape.size()) {
        return BadInput(field, fmt::format("{} has no dimension {}", g_.tensor(id).name,
                                           static_cast<int>(state.dim)));
      }
      HEDDLE_RETURN_IF_ERROR(CheckRatios(axis, state.ratios, field));
    }
    return Ok();
  }

  Status CheckRatios(size_t axis, int ratios, const std::string& field) const {
    if (ratios >= 0 && static_cast<size_t>(ratios) < plan_.ratios[axis].size()) return Ok();
    return BadInput(field, fmt::format("there is no ratio vector {} of axis {}", ratios, axis),
                    fmt::format("ratios[{}] has {}", axis, plan_.ratios[axis].size()));
  }

  void Put(TensorId id, const Layout& layout, Terms terms) {
    facts_[Index(id)][layout] = std::move(terms);
  }

  bool IsData(TensorId id) const { return g_.tensor(id).role == Role::kInput; }
  bool IsStored(TensorId id) const { return storage_of_.contains(id); }

  std::string LayoutsOf(TensorId id) const {
    std::string text;
    for (const auto& fact : facts_[Index(id)]) {
      text += (text.empty() ? "" : ", ") + NameOf(fact.first);
    }
    return text.empty() ? "not made yet" : "there as " + text;
  }

  // The tensor must be there in the layout, with all its terms unless `some` will do.
  Status Need(TensorId id, const Layout& layout, bool some) const {
    const std::string& name = g_.tensor(id).name;
    if (IsData(id)) {
      if (!HasPartial(layout)) return CheckLayout(id, layout, where_);
      return Bad(fmt::format("{} is data and has no partial sums", name));
    }
    const Facts& facts = facts_[Index(id)];
    const auto found = facts.find(layout);
    if (found == facts.end()) {
      return Bad(fmt::format("needs {} as {}; it is {}", name, NameOf(layout), LayoutsOf(id)),
                 "convert it before");
    }
    if (some || IsStored(id) || found->second.size() == producers_[Index(id)]) return Ok();
    return Bad(fmt::format("needs all terms of {}; {} has {} of {}", name, NameOf(layout),
                           found->second.size(), producers_[Index(id)]),
               "complete the sum before");
  }

  Status CheckRule(const Op& op, const OpRule& rule) const {
    const std::vector<AxisRule> rules = RulesOf(op);
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      AxisRule plain = rule[axis];
      if (plain.letter != 0) HEDDLE_RETURN_IF_ERROR(CheckRatios(axis, plain.ratios, where_));
      plain.ratios = 0;
      if (std::find(rules.begin(), rules.end(), plain) != rules.end()) continue;
      return Bad(fmt::format("op {} cannot be computed as {}", op.name, NameOf(rule)));
    }
    return Ok();
  }

  Status Compute(const SpmdStep& step) {
    if (Index(TensorId{step.op.value}) >= g_.ops().size()) return Bad("names no op of the model");
    const Op& op = g_.op(step.op);
    if (done_[Index(TensorId{step.op.value})]) {
      return Bad(fmt::format("op {} is computed twice", op.name));
    }
    done_[Index(TensorId{step.op.value})] = true;
    HEDDLE_RETURN_IF_ERROR(CheckRule(op, step.rule));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i].tensor;
      const Layout layout = InputLayout(op, i, step.rule);
      HEDDLE_RETURN_IF_ERROR(Need(id, layout, /*some=*/false));
      for (size_t j = 0; j < i; ++j) {  // a segment has one buffer of a tensor
        if (op.inputs[j].tensor != id || InputLayout(op, j, step.rule) == layout) continue;
        return Bad(fmt::format("op {} would read {} in two layouts", op.name, g_.tensor(id).name));
      }
      const bool stale = updated_.contains(id) && op.phase != Phase::kUpdate;
      if (stale) return Bad(fmt::format("reads {} after its update", g_.tensor(id).name));
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const TensorId id = op.outputs[o].tensor;
      const Layout layout = OutputLayout(op, o, step.rule);
      if (IsStored(id)) {
        if (layout != storage_of_.at(id)) {
          return Bad(fmt::format("updates {} as {}, but it is stored as {}", g_.tensor(id).name,
                                 NameOf(layout), NameOf(storage_of_.at(id))));
        }
        // Other copies are of the old value.
        facts_[Index(id)] = {{layout, {}}};
        updated_.insert(id);
        continue;
      }
      if (g_.tensor(id).dtype == DType::kI64 && HasPartial(layout)) {
        return Bad(fmt::format("{} has whole numbers and no partial sums", g_.tensor(id).name));
      }
      facts_[Index(id)][layout].insert(step.op.value);
    }
    return Ok();
  }

  Status Convert(const SpmdStep& step) {
    if (Index(step.tensor) >= g_.tensors().size()) return Bad("names no tensor of the model");
    const Tensor& tensor = g_.tensor(step.tensor);
    HEDDLE_RETURN_IF_ERROR(CheckLayout(step.tensor, step.to, where_));
    if (!ConversionOf(step.from, step.to)) {
      return Bad(fmt::format("{} cannot go from {} to {} at once", tensor.name, NameOf(step.from),
                             NameOf(step.to)),
                 "convert one mesh axis after the other, the inner one first");
    }
    if (tensor.role == Role::kLoss) return Bad("a loss goes to the log and is not converted");
    if (tensor.dtype == DType::kI64 && HasPartial(step.to)) {
      return Bad(fmt::format("{} has whole numbers and no partial sums", tensor.name));
    }
    HEDDLE_RETURN_IF_ERROR(Need(step.tensor, step.from, /*some=*/true));
    if (IsData(step.tensor)) return Need(step.tensor, step.to, /*some=*/true);
    if (IsStored(step.tensor) && step.to == storage_of_.at(step.tensor)) {
      return Bad(fmt::format("{} is stored as {} already", tensor.name, NameOf(step.to)));
    }
    Facts& facts = facts_[Index(step.tensor)];
    const Terms terms = facts.at(step.from);
    Terms& there = facts[step.to];
    const bool some_of_them = std::includes(terms.begin(), terms.end(), there.begin(), there.end());
    const bool others = std::none_of(there.begin(), there.end(),
                                     [&](int32_t term) { return terms.contains(term); });
    if (some_of_them) {
      there = terms;  // made again
    } else if (others) {
      there.insert(terms.begin(), terms.end());  // added to what is there
    } else {
      return Bad(fmt::format("would add some terms of {} twice", tensor.name));
    }
    return Ok();
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  const ReplayScope& scope_;
  const std::string& where_;
  size_t step_ = 0;
  std::vector<Facts> facts_;       // by tensor
  std::vector<size_t> producers_;  // by tensor: how many
  std::vector<bool> done_;         // by op
  std::map<TensorId, Layout> storage_of_;
  std::set<TensorId> updated_;
};

}  // namespace

Status CheckMesh(const SpmdPlan& plan, const std::string& where) {
  if (plan.mesh.empty() || plan.mesh[0].empty()) {
    return BadInput(where + ": mesh", "has no devices", "list them by node");
  }
  std::set<std::string> names;
  for (const std::vector<std::string>& node : plan.mesh) {
    if (node.size() != plan.mesh[0].size()) {
      return BadInput(where + ": mesh", "has nodes of different sizes",
                      "nodes of one size, or all devices as one node");
    }
    for (const std::string& name : node) {
      if (names.insert(name).second) continue;
      return BadInput(where + ": mesh", fmt::format("has device {} twice", name));
    }
  }
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const size_t places = axis == 0 ? plan.mesh.size() : plan.mesh[0].size();
    for (size_t k = 0; k < plan.ratios[axis].size(); ++k) {
      const std::vector<double>& ratios = plan.ratios[axis][k];
      const std::string field = fmt::format("{}: ratios[{}][{}]", where, axis, k);
      if (ratios.size() != places) {
        return BadInput(field, fmt::format("has {} entries", ratios.size()),
                        fmt::format("the mesh has {} places on this axis", places));
      }
      const bool good = std::all_of(ratios.begin(), ratios.end(), [](double r) { return r >= 0; });
      const double sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
      if (good && std::abs(sum - 1) < 1e-6) continue;
      return BadInput(field, fmt::format("adds up to {}", sum), "shares from 0 that add up to 1");
    }
  }
  return Ok();
}

Status CheckSteps(const SpmdPlan& plan, const Graph& graph, const ReplayScope& scope,
                  const std::string& where) {
  HEDDLE_RETURN_IF_ERROR(CheckMesh(plan, where));
  return SpmdReplay(plan, graph, scope, where).Run();
}

Status CheckSpmdPlan(const SpmdPlan& plan, const Graph& graph, const std::string& where) {
  ReplayScope scope;
  scope.whose = "the model";
  scope.ops.resize(graph.ops().size(), true);
  scope.parameters.resize(graph.parameters().size());
  std::iota(scope.parameters.begin(), scope.parameters.end(), 0);
  scope.parts = {{0, plan.steps.size(), {}, {}, nullptr}};
  return CheckSteps(plan, graph, scope, where);
}

}  // namespace heddle
