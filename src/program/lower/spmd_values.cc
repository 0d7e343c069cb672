#include "program/lower/spmd_values.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace heddle {
namespace {

// Conversions of weight gradients right after the step that made their input, so that exchanges
// start as early as they can; all else in the plan's order.
std::vector<size_t> OrderOf(const SpmdPlan& plan, const Graph& graph) {
  std::vector<std::pair<size_t, size_t>> keys(plan.steps.size());
  std::map<TensorId, size_t> touched;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const SpmdStep& step = plan.steps[k];
    keys[k] = {k, 0};
    if (step.converts()) {
      const auto found = touched.find(step.tensor);
      const bool moves = IsSum(graph, step.tensor) && step.tensor != graph.clip_norm();
      if (moves && found != touched.end()) keys[k] = {keys[found->second].first, k};
      touched[step.tensor] = k;
      continue;
    }
    for (const Operand& output : graph.op(step.op).outputs) touched[output.tensor] = k;
  }
  std::vector<size_t> order(plan.steps.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

// Which value each step reads and makes.
class FlowWalk {
 public:
  FlowWalk(const SpmdPlan& plan, const Graph& graph, int32_t microbatches, SpmdSchedule& schedule)
      : plan_(plan),
        g_(graph),
        microbatches_(microbatches),
        s_(schedule),
        producers_(graph.tensors().size()),
        there_(graph.tensors().size()) {
    for (const Op& op : graph.ops()) {
      const size_t times = op.phase == Phase::kUpdate ? 1 : static_cast<size_t>(microbatches);
      for (const Operand& output : op.outputs) producers_[Index(output.tensor)] += times;
    }
    for (const SpmdStep& step : plan.steps) {
      if (step.converts()) ++conversions_[{step.tensor, step.to}];
    }
    if (plan.converts_each) FindEach();
    for (size_t p = 0; p < graph.parameters().size(); ++p) {
      const Parameter& parameter = graph.parameters()[p];
      Hold(parameter.tensor, plan.storage[p].layout);
      for (const TensorId state : parameter.states) Hold(state, plan.storage[p].layout);
    }
  }

  ValueFlow Run() {
    const std::vector<size_t> order = OrderOf(plan_, g_);
    for (microbatch_ = 0; microbatch_ < microbatches_; ++microbatch_) {
      for (const size_t k : order) {
        if (!IsDoneNow(plan_.steps[k])) continue;
        if (plan_.steps[k].converts()) {
          Convert(k);
        } else {
          Compute(k);
        }
      }
      ForgetTerms();
    }
    return {std::move(nodes_), std::move(last_use_)};
  }

 private:
  using Terms = std::set<std::pair<int32_t, int32_t>>;  // of a sum: ops and microbatches

  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }

  // In this microbatch?
  bool IsDoneNow(const SpmdStep& step) const {
    const bool last = microbatch_ + 1 == microbatches_;
    if (!step.converts()) return last || g_.op(step.op).phase != Phase::kUpdate;
    if (step.tensor == g_.clip_norm()) return last;
    if (IsSum(g_, step.tensor)) return last || each_.contains(step.tensor);
    const bool weight = g_.tensor(step.tensor).role == Role::kParameter;
    return !weight || microbatch_ == 0 || conversions_.at({step.tensor, step.to}) > 1;
  }

  // Gradients that may be converted after each microbatch: all that is done with them is done where
  // the parameter is stored, and they get there at once.
  void FindEach() {
    for (size_t p = 0; p < g_.parameters().size(); ++p) {
      each_[g_.parameters()[p].gradient] = plan_.storage[p].layout;
    }
    for (const SpmdStep& step : plan_.steps) {
      if (step.converts()) {
        if (conversions_.at({step.tensor, step.to}) > 1) each_.erase(step.tensor);
        continue;
      }
      const Op& op = g_.op(step.op);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const auto found = each_.find(op.inputs[i].tensor);
        if (found == each_.end() || InputLayout(op, i, step.rule) == found->second) continue;
        each_.erase(found);
      }
    }
  }

  // Terms that have been converted are where the parameter is stored; the next ones start anew.
  void ForgetTerms() {
    for (const auto& [tensor, stored] : each_) {
      std::erase_if(there_[Index(tensor)],
                    [&, layout = stored](const Copy& copy) { return copy.layout != layout; });
    }
  }

  // Terms are told apart of sums alone.
  int32_t NewValue(TensorId tensor, const Layout& layout, Terms terms) {
    const auto value = static_cast<int32_t>(s_.values.size());
    const bool complete = !IsSum(g_, tensor) || terms.size() >= producers_[Index(tensor)];
    s_.values.push_back(
        {tensor, layout, static_cast<int32_t>(s_.buffers.size()), microbatch_, complete});
    s_.buffers.push_back({tensor, false, ""});
    terms_.push_back(std::move(terms));
    last_use_.push_back(nodes_.size());
    Put(tensor, layout, value);
    return value;
  }

  // The newest value of the tensor in the layout; kNone: there is none.
  int32_t Find(TensorId tensor, const Layout& layout) const {
    for (const Copy& copy : there_[Index(tensor)]) {
      if (copy.layout == layout) return copy.value;
    }
    return kNone;
  }
  void Put(TensorId tensor, const Layout& layout, int32_t value) {
    for (Copy& copy : there_[Index(tensor)]) {
      if (copy.layout != layout) continue;
      copy.value = value;
      return;
    }
    there_[Index(tensor)].push_back({layout, value});
  }

  int32_t Hold(TensorId tensor, const Layout& layout) {
    const int32_t value = NewValue(tensor, layout, {});
    s_.values.back().complete = true;
    s_.buffers.back().held = true;
    if (g_.tensor(tensor).role != Role::kInput) s_.held.push_back(value);
    return value;
  }

  // Data is there in every layout.
  int32_t Read(TensorId tensor, const Layout& layout) {
    const int32_t found = Find(tensor, layout);
    const bool data = g_.tensor(tensor).role == Role::kInput;
    HEDDLE_CHECK(found != kNone || data);
    const int32_t value = found != kNone ? found : Hold(tensor, layout);
    last_use_[static_cast<size_t>(value)] = nodes_.size();
    return value;
  }

  void Compute(size_t k) {
    const SpmdStep& step = plan_.steps[k];
    const Op& op = g_.op(step.op);
    StepNode node;
    node.step = k;
    node.microbatch = microbatch_;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      node.in.push_back(Read(op.inputs[i].tensor, InputLayout(op, i, step.rule)));
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const TensorId tensor = op.outputs[o].tensor;
      const Layout layout = OutputLayout(op, o, step.rule);
      const Role role = g_.tensor(tensor).role;
      const bool changes = role == Role::kParameter || role == Role::kState;
      const bool is_new = !changes && (!IsSum(g_, tensor) || Find(tensor, layout) == kNone);
      if (is_new) {
        Terms terms;
        if (IsSum(g_, tensor)) terms.insert({step.op.value, microbatch_});
        node.out.push_back(NewValue(tensor, layout, std::move(terms)));
      } else {
        node.out.push_back(Read(tensor, layout));
        if (!changes) AddTerms(node.out.back(), {{step.op.value, microbatch_}});
      }
      node.is_new.push_back(is_new);
    }
    nodes_.push_back(std::move(node));
  }

  // What has been added to is another value in the same buffer.
  void AddTerms(int32_t value, const Terms& terms) {
    Terms& sum = terms_[static_cast<size_t>(value)];
    sum.insert(terms.begin(), terms.end());
    SpmdValue& changed = s_.values[static_cast<size_t>(value)];
    changed.complete = sum.size() >= producers_[Index(changed.tensor)];
  }

  void Convert(size_t k) {
    const SpmdStep& step = plan_.steps[k];
    if (g_.tensor(step.tensor).role == Role::kInput) return;
    StepNode node;
    node.kind = StepNode::Kind::kConvert;
    node.step = k;
    node.microbatch = microbatch_;
    node.in = {Read(step.tensor, step.from)};
    const Terms terms = terms_[static_cast<size_t>(node.in[0])];
    // Terms of a sum that are there in the other layout already are added to, not replaced.
    int32_t sum = -1;
    const int32_t found = Find(step.tensor, step.to);
    if (found != kNone && IsSum(g_, step.tensor)) {
      const Terms& others = terms_[static_cast<size_t>(found)];
      const bool disjoint = std::none_of(others.begin(), others.end(),
                                         [&](const auto& term) { return terms.contains(term); });
      if (disjoint) sum = found;
    }
    node.out = {NewValue(step.tensor, step.to, terms)};
    node.is_new = {true};
    const int32_t made = node.out[0];
    nodes_.push_back(std::move(node));
    if (sum < 0) return;
    Put(step.tensor, step.to, sum);
    last_use_[static_cast<size_t>(made)] = last_use_[static_cast<size_t>(sum)] = nodes_.size();
    StepNode merge;
    merge.kind = StepNode::Kind::kMerge;
    merge.step = k;
    merge.microbatch = microbatch_;
    merge.in = {made};
    merge.out = {sum};
    merge.is_new = {false};
    nodes_.push_back(std::move(merge));
    AddTerms(sum, terms);
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  const int32_t microbatches_;
  int32_t microbatch_ = 0;
  SpmdSchedule& s_;
  std::vector<size_t> producers_;                           // by tensor: how many terms
  std::map<std::pair<TensorId, Layout>, int> conversions_;  // how often the plan has them
  std::map<TensorId, Layout> each_;  // gradients converted after each microbatch, to this layout
  static constexpr int32_t kNone = -1;
  struct Copy {
    Layout layout;
    int32_t value;
  };
  std::vector<std::vector<Copy>> there_;  // by tensor: the newest values
  std::vector<Terms> terms_;              // by value
  std::vector<size_t> last_use_;          // by value: a node
  std::vector<StepNode> nodes_;
};

}  // namespace

ValueFlow FlowOf(const SpmdPlan& plan, const Graph& graph, int32_t microbatches,
                 SpmdSchedule& schedule) {
  return FlowWalk(plan, graph, microbatches, schedule).Run();
}

}  // namespace heddle
