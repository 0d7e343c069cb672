#include "program/lower/spmd_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"

namespace heddle {
namespace {

// A step in the order of work; `place` is that of the step it follows at once.
struct PlacedStep {
  size_t place = 0;
  size_t step = 0;
};

// Conversions of weight gradients right after the step that made their input, so that exchanges
// start as early as they can; all else in the plan's order.
std::vector<PlacedStep> OrderOf(const SpmdPlan& plan, const Graph& graph) {
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
  std::vector<PlacedStep> order(plan.steps.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = {keys[k].first, k};
  std::stable_sort(order.begin(), order.end(), [&](const PlacedStep& a, const PlacedStep& b) {
    return keys[a.step] < keys[b.step];
  });
  return order;
}

// The work of one item: steps, and after which of them something is sent.
struct WorkStep {
  size_t step = 0;
  bool again = false;
  std::vector<size_t> sent = {};  // of the chunk's crossings
};
struct WorkList {
  std::vector<WorkStep> steps;
  std::vector<size_t> sent_last;  // what was there before
};

// The lists of a stage, by run of layers and direction, and its updates.
class WorkLists {
 public:
  WorkLists(const SpmdPlan& plan, const BodyShape& shape, const StageFlow& stage,
            const Graph& graph)
      : plan_(plan), shape_(shape), g_(graph) {
    const std::vector<PlacedStep> order = OrderOf(plan, graph);
    for (size_t c = 0; c < shape.chunks.size(); ++c) {
      const ChunkSteps& chunk = shape.chunks[c];
      lists_.emplace_back();
      lists_[c][1].steps = Between(order, chunk.forward, chunk.backward);
      lists_[c][0].steps = shape.again.empty() ? Between(order, chunk.backward, chunk.end)
                                               : BackwardAgain(order, chunk);
      if (stage.ends.empty()) continue;
      for (const bool forward : {false, true}) Send(stage.ends[c][forward].out, lists_[c][forward]);
    }
    updates_ = Between(order, shape.updates, plan.steps.size());
  }

  const WorkList& Of(int32_t chunk, bool forward) const {
    return lists_[static_cast<size_t>(chunk)][forward];
  }
  const std::vector<WorkStep>& updates() const { return updates_; }

 private:
  static std::vector<WorkStep> Between(const std::vector<PlacedStep>& order, size_t begin,
                                       size_t end) {
    std::vector<WorkStep> steps;
    for (const PlacedStep& placed : order) {
      if (placed.place >= begin && placed.place < end) steps.push_back({placed.step});
    }
    return steps;
  }

  // A layer whose forward is computed again does so just before its backward, from its inputs,
  // which were kept.
  std::vector<WorkStep> BackwardAgain(const std::vector<PlacedStep>& order,
                                      const ChunkSteps& chunk) const {
    const auto forward = LayersOfSteps(plan_, chunk.forward, chunk.backward, g_);
    const auto backward = LayersOfSteps(plan_, chunk.backward, chunk.end, g_);
    std::set<int32_t> left(shape_.again.begin(), shape_.again.end());
    std::vector<WorkStep> steps;
    for (const PlacedStep& placed : order) {
      if (placed.place < chunk.backward || placed.place >= chunk.end) continue;
      const int32_t layer = backward[placed.place - chunk.backward];
      if (left.erase(layer) > 0) {
        for (size_t k = chunk.forward; k < chunk.backward; ++k) {
          if (forward[k - chunk.forward] == layer) steps.push_back({k, /*again=*/true});
        }
      }
      steps.push_back({placed.step});
    }
    return steps;
  }

  // What is made here is sent at once, the rest at the end.
  void Send(const std::vector<FlowCrossing>& out, WorkList& list) const {
    for (size_t k = 0; k < out.size(); ++k) {
      const auto made = std::find_if(
          list.steps.rbegin(), list.steps.rend(),
          [&](const WorkStep& work) { return !work.again && Makes(work.step, out[k].tensor); });
      (made == list.steps.rend() ? list.sent_last : made->sent).push_back(k);
    }
  }

  bool Makes(size_t k, TensorId tensor) const {
    const SpmdStep& step = plan_.steps[k];
    if (step.converts()) return step.tensor == tensor;
    const std::vector<Operand>& outputs = g_.op(step.op).outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const Operand& output) { return output.tensor == tensor; });
  }

  const SpmdPlan& plan_;
  const BodyShape& shape_;
  const Graph& g_;
  std::vector<std::array<WorkList, 2>> lists_;
  std::vector<WorkStep> updates_;
};

bool HasPartial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(),
                     [](const ShardState& state) { return state.kind == ShardKind::kPartial; });
}

// Which value each step reads and makes.
class FlowWalk {
 public:
  FlowWalk(const SpmdPlan& plan, const BodyShape& shape, const StageFlow& stage, const Graph& graph,
           SpmdSchedule& schedule)
      : plan_(plan),
        g_(graph),
        stage_(stage),
        lists_(plan, shape, stage, graph),
        s_(schedule),
        producers_(graph.tensors().size()),
        there_(graph.tensors().size()),
        sent_(stage.items.size()) {
    for (const Parameter& parameter : graph.parameters())
      parameters_[parameter.tensor] = &parameter;
    FindTurns();
    for (const SpmdStep& step : plan.steps) {
      if (step.converts()) {
        ++conversions_[{step.tensor, step.to}];
        continue;
      }
      const Op& op = graph.op(step.op);
      const size_t times = op.phase == Phase::kUpdate ? 1 : microbatches_;
      for (const Operand& output : op.outputs) producers_[Index(output.tensor)] += times;
    }
    if (plan.converts_each) FindEach();
    for (const SpmdStorage& stored : plan.storage) {
      Hold(stored.parameter, stored.layout);
      for (const TensorId state : parameters_.at(stored.parameter)->states) {
        Hold(state, stored.layout);
      }
    }
  }

  ValueFlow Run() {
    size_t next_receive = 0;
    for (size_t k = 0; k < stage_.items.size(); ++k) {
      while (next_receive < std::min(k + stage_.receive_ahead + 1, stage_.items.size())) {
        Receive(stage_.items[next_receive++]);
      }
      Do(k);
      for (const size_t taken : stage_.items[k].taken) End(sent_[taken]);
    }
    first_ = last_ = true;
    for (const TensorId gradient : stage_.tied) Tie(gradient);
    for (const WorkStep& work : lists_.updates()) DoStep(work);
    for (std::vector<int32_t>& sent : sent_) End(sent);
    return {std::move(nodes_), std::move(last_use_)};
  }

 private:
  using Terms = std::set<std::pair<int32_t, int32_t>>;  // of a sum: ops and microbatches

  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }

  // Which items are the first and the last of their kind.
  void FindTurns() {
    std::map<std::pair<int32_t, bool>, size_t> firsts, lasts;
    for (size_t k = 0; k < stage_.items.size(); ++k) {
      const FlowItem& item = stage_.items[k];
      firsts.try_emplace({item.chunk, item.forward}, k);
      lasts[{item.chunk, item.forward}] = k;
      if (item.chunk == 0 && item.forward) ++microbatches_;
      if (!item.forward) ++backwards_[item.microbatch];
    }
    is_first_.resize(stage_.items.size());
    is_last_.resize(stage_.items.size());
    for (const auto& first : firsts) is_first_[first.second] = true;
    for (const auto& last : lasts) is_last_[last.second] = true;
  }

  // --- Work and messages -------------------------------------------------------------------------

  void Do(size_t number) {
    const FlowItem& item = stage_.items[number];
    microbatch_ = item.microbatch;
    first_ = is_first_[number];
    last_ = is_last_[number];
    // What was sent forward has arrived: its gradient comes back.
    if (!item.forward) End(forwarded_[{item.chunk, item.microbatch}]);
    const WorkList& list = lists_.Of(item.chunk, item.forward);
    for (const WorkStep& work : list.steps) {
      DoStep(work);
      for (const size_t crossing : work.sent) Send(number, crossing);
    }
    for (const size_t crossing : list.sent_last) Send(number, crossing);
    if (item.forward) return;
    ForgetTerms();
    if (--backwards_.at(item.microbatch) == 0) in_flight_.erase(item.microbatch);
  }

  void DoStep(const WorkStep& work) {
    const SpmdStep& step = plan_.steps[work.step];
    again_ = work.again;
    if (IsDoneNow(step)) step.converts() ? Convert(work.step) : Compute(work.step);
    again_ = false;
  }

  const StageFlow::Ends* EndsOf(const FlowItem& item) const {
    if (stage_.ends.empty()) return nullptr;
    return &stage_.ends[static_cast<size_t>(item.chunk)][item.forward];
  }

  void Receive(const FlowItem& item) {
    const StageFlow::Ends* ends = EndsOf(item);
    if (ends == nullptr) return;
    microbatch_ = item.microbatch;
    for (const FlowCrossing& crossing : ends->in) {
      StepNode node = Node(StepNode::Kind::kReceive);
      node.lane = crossing.lane;
      node.out = {NewValue(crossing.tensor, crossing.layout, {})};
      node.is_new = {true};
      nodes_.push_back(std::move(node));
    }
  }

  // As the receiver wants it, if it is there so; else what is there, complete.
  void Send(size_t number, size_t which) {
    const FlowItem& item = stage_.items[number];
    const FlowCrossing& crossing = EndsOf(item)->out[which];
    int32_t value = Find(crossing.tensor, crossing.layout);
    for (const Copy& copy : There(crossing.tensor)) {
      if (value == kNone && !HasPartial(copy.layout)) value = copy.value;
    }
    HEDDLE_CHECK(value != kNone);
    last_use_[static_cast<size_t>(value)] = nodes_.size();
    StepNode node = Node(StepNode::Kind::kSend);
    node.lane = crossing.lane;
    node.in = {value};
    nodes_.push_back(std::move(node));
    if (first_) s_.given.emplace_back(crossing.lane, s_.values[static_cast<size_t>(value)].layout);
    (item.forward ? forwarded_[{item.chunk, item.microbatch}] : sent_[number]).push_back(value);
  }

  // Nobody waits for the values any more.
  void End(std::vector<int32_t>& values) {
    if (values.empty()) return;
    StepNode node = Node(StepNode::Kind::kLast);
    for (const int32_t value : values) last_use_[static_cast<size_t>(value)] = nodes_.size();
    node.in = std::exchange(values, {});
    nodes_.push_back(std::move(node));
  }

  void Tie(TensorId gradient) {
    const auto stored =
        std::find_if(plan_.storage.begin(), plan_.storage.end(), [&](const SpmdStorage& one) {
          return parameters_.at(one.parameter)->gradient == gradient;
        });
    StepNode node = Node(StepNode::Kind::kTie);
    node.in = {Read(gradient, stored->layout)};
    nodes_.push_back(std::move(node));
  }

  StepNode Node(StepNode::Kind kind) const {
    StepNode node;
    node.kind = kind;
    node.microbatch = microbatch_;
    node.again = again_;
    return node;
  }

  // In this item of work?
  bool IsDoneNow(const SpmdStep& step) const {
    if (!step.converts()) return last_ || g_.op(step.op).phase != Phase::kUpdate;
    if (step.tensor == g_.clip_norm()) return last_;
    if (IsSum(g_, step.tensor)) return last_ || each_.contains(step.tensor);
    const bool weight = g_.tensor(step.tensor).role == Role::kParameter;
    return !weight || (first_ && !again_) || conversions_.at({step.tensor, step.to}) > 1;
  }

  // Gradients that may be converted after each microbatch: all that is done with them is done where
  // the parameter is stored, and they get there at once.
  void FindEach() {
    for (const SpmdStorage& stored : plan_.storage) {
      each_[parameters_.at(stored.parameter)->gradient] = stored.layout;
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
  int32_t Find(TensorId tensor, const Layout& layout) {
    for (const Copy& copy : There(tensor)) {
      if (copy.layout == layout) return copy.value;
    }
    return kNone;
  }
  void Put(TensorId tensor, const Layout& layout, int32_t value) {
    for (Copy& copy : There(tensor)) {
      if (copy.layout != layout) continue;
      copy.value = value;
      return;
    }
    There(tensor).push_back({layout, value});
  }

  // Copies of a tensor; where several microbatches are in flight each has its own.
  struct Copy {
    Layout layout;
    int32_t value;
  };
  std::vector<Copy>& There(TensorId tensor) {
    const Role role = g_.tensor(tensor).role;
    const bool own = role == Role::kActivation || role == Role::kGradient;
    if (stage_.alone || !own) return there_[Index(tensor)];
    auto& copies = in_flight_[microbatch_];
    if (copies.empty()) copies.resize(there_.size());
    return copies[Index(tensor)];
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
    StepNode node = Node(StepNode::Kind::kOp);
    node.step = k;
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
    StepNode node = Node(StepNode::Kind::kConvert);
    node.step = k;
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
    StepNode merge = Node(StepNode::Kind::kMerge);
    merge.step = k;
    merge.in = {made};
    merge.out = {sum};
    merge.is_new = {false};
    nodes_.push_back(std::move(merge));
    AddTerms(sum, terms);
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  const StageFlow& stage_;
  const WorkLists lists_;
  SpmdSchedule& s_;
  std::map<TensorId, const Parameter*> parameters_;
  size_t microbatches_ = 0;
  std::vector<bool> is_first_, is_last_;                    // by item
  std::map<int32_t, int> backwards_;                        // by microbatch: still to come
  bool first_ = false, last_ = false;                       // the item at work
  bool again_ = false;                                      //
  int32_t microbatch_ = 0;                                  //
  std::vector<size_t> producers_;                           // by tensor: how many terms
  std::map<std::pair<TensorId, Layout>, int> conversions_;  // how often the plan has them
  std::map<TensorId, Layout> each_;  // gradients converted after each microbatch, to this layout
  static constexpr int32_t kNone = -1;
  std::vector<std::vector<Copy>> there_;                         // by tensor: the newest values
  std::map<int32_t, std::vector<std::vector<Copy>>> in_flight_;  // likewise, by microbatch
  std::vector<std::vector<int32_t>> sent_;                       // gradients, by item
  std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> forwarded_;  // by chunk, microbatch
  std::vector<Terms> terms_;                                               // by value
  std::vector<size_t> last_use_;                                           // by value: a node
  std::vector<StepNode> nodes_;
};

}  // namespace

ValueFlow FlowOf(const SpmdPlan& plan, const BodyShape& shape, const StageFlow& stage,
                 const Graph& graph, SpmdSchedule& schedule) {
  return FlowWalk(plan, shape, stage, graph, schedule).Run();
}

}  // namespace heddle
