#include "program/lower/spmd_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/check.h"

namespace heddle {
namespace {

// A step of the plan with its values.
struct StepNode {
  enum class Kind : uint8_t { kOp, kConvert, kMerge };
  Kind kind = Kind::kOp;
  size_t step = 0;
  std::vector<int32_t> in, out;  // values
  std::vector<bool> is_new;      // by output: made here, not added to or changed
};

bool IsSum(const Graph& graph, TensorId id) {
  return graph.tensor(id).role == Role::kWeightGradient;
}

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
class ValueFlow {
 public:
  ValueFlow(const SpmdPlan& plan, const Graph& graph, SpmdSchedule& schedule)
      : plan_(plan), g_(graph), s_(schedule), producers_(graph.tensors().size()) {
    for (const Op& op : graph.ops()) {
      for (const Operand& output : op.outputs) ++producers_[Index(output.tensor)];
    }
    for (size_t p = 0; p < graph.parameters().size(); ++p) {
      const Parameter& parameter = graph.parameters()[p];
      Hold(parameter.tensor, plan.storage[p].layout);
      for (const TensorId state : parameter.states) Hold(state, plan.storage[p].layout);
    }
  }

  std::vector<StepNode> Run() {
    for (const size_t k : OrderOf(plan_, g_)) {
      if (plan_.steps[k].converts()) {
        Convert(k);
      } else {
        Compute(k);
      }
    }
    return std::move(nodes_);
  }

  const std::vector<size_t>& last_use() const { return last_use_; }

 private:
  using Terms = std::set<int32_t>;  // of a sum: ops

  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }

  int32_t NewValue(TensorId tensor, const Layout& layout, Terms terms) {
    const auto value = static_cast<int32_t>(s_.values.size());
    const bool complete = terms.size() >= producers_[Index(tensor)];
    s_.values.push_back({tensor, layout, static_cast<int32_t>(s_.buffers.size()), complete});
    s_.buffers.push_back({tensor, false, ""});
    terms_.push_back(std::move(terms));
    last_use_.push_back(nodes_.size());
    there_[{tensor, layout}] = value;
    return value;
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
    const auto found = there_.find({tensor, layout});
    const bool data = g_.tensor(tensor).role == Role::kInput;
    HEDDLE_CHECK(found != there_.end() || data);
    const int32_t value = found != there_.end() ? found->second : Hold(tensor, layout);
    last_use_[static_cast<size_t>(value)] = nodes_.size();
    return value;
  }

  void Compute(size_t k) {
    const SpmdStep& step = plan_.steps[k];
    const Op& op = g_.op(step.op);
    StepNode node;
    node.step = k;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      node.in.push_back(Read(op.inputs[i].tensor, InputLayout(op, i, step.rule)));
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const TensorId tensor = op.outputs[o].tensor;
      const Layout layout = OutputLayout(op, o, step.rule);
      const Role role = g_.tensor(tensor).role;
      const bool changes = role == Role::kParameter || role == Role::kState;
      const auto found = there_.find({tensor, layout});
      const bool is_new = !changes && (!IsSum(g_, tensor) || found == there_.end());
      if (is_new) {
        node.out.push_back(NewValue(tensor, layout, {step.op.value}));
      } else {
        node.out.push_back(Read(tensor, layout));
        if (!changes) AddTerms(node.out.back(), {step.op.value});
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
    node.in = {Read(step.tensor, step.from)};
    const Terms terms = terms_[static_cast<size_t>(node.in[0])];
    // Terms of a sum that are there in the other layout already are added to, not replaced.
    int32_t sum = -1;
    const auto found = there_.find({step.tensor, step.to});
    if (found != there_.end() && IsSum(g_, step.tensor)) {
      const Terms& others = terms_[static_cast<size_t>(found->second)];
      const bool disjoint = std::none_of(others.begin(), others.end(),
                                         [&](int32_t term) { return terms.contains(term); });
      if (disjoint) sum = found->second;
    }
    node.out = {NewValue(step.tensor, step.to, terms)};
    node.is_new = {true};
    const int32_t made = node.out[0];
    nodes_.push_back(std::move(node));
    if (sum < 0) return;
    there_[{step.tensor, step.to}] = sum;
    last_use_[static_cast<size_t>(made)] = last_use_[static_cast<size_t>(sum)] = nodes_.size();
    StepNode merge;
    merge.kind = StepNode::Kind::kMerge;
    merge.step = k;
    merge.in = {made};
    merge.out = {sum};
    merge.is_new = {false};
    nodes_.push_back(std::move(merge));
    AddTerms(sum, terms);
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  SpmdSchedule& s_;
  std::vector<size_t> producers_;                         // by tensor: how many
  std::map<std::pair<TensorId, Layout>, int32_t> there_;  // the newest value
  std::vector<Terms> terms_;                              // by value
  std::vector<size_t> last_use_;                          // by value: a node
  std::vector<StepNode> nodes_;
};

// Nodes become pieces.
class PieceMaker {
 public:
  PieceMaker(const SpmdPlan& plan, const Graph& graph, const SpmdScheduleOptions& options,
             SpmdSchedule& schedule, std::vector<StepNode> nodes, std::vector<size_t> last_use)
      : plan_(plan),
        g_(graph),
        options_(options),
        s_(schedule),
        nodes_(std::move(nodes)),
        last_use_(std::move(last_use)) {}

  void Run() {
    ShareBuffers();
    for (const SpmdBuffer& buffer : s_.buffers) {
      if (buffer.held) forms_[buffer.tensor].insert("");
    }
    for (at_ = 0; at_ < nodes_.size(); ++at_) {
      const StepNode& node = nodes_[at_];
      if (AwaitsBucket(node)) PostBuckets();
      if (node.kind == StepNode::Kind::kOp) {
        Collect(node);
      } else if (node.kind == StepNode::Kind::kMerge) {
        Move(node);
      } else {
        Convert(node);
      }
    }
    PostBuckets();
    Flush();
    FreeExchanged(/*all=*/true);
  }

 private:
  const SpmdValue& value(int32_t id) const { return s_.values[static_cast<size_t>(id)]; }
  SpmdBuffer& buffer(int32_t id) const { return s_.buffers[static_cast<size_t>(value(id).buffer)]; }
  size_t LastUse(int32_t id) const {
    return buffer_last_use_[static_cast<size_t>(value(id).buffer)];
  }
  bool Ends(int32_t id, size_t node) const { return !buffer(id).held && LastUse(id) <= node; }

  size_t Places(int axis) const {
    if (axis == 0) return plan_.mesh.size();
    return plan_.mesh[0].size() * (axis == 1 ? 1 : plan_.mesh.size());
  }

  // With a single place on the axis nobody is there to talk to.
  Conversion ConversionAt(const StepNode& node) const {
    const SpmdStep& step = plan_.steps[node.step];
    const auto conversion = ConversionOf(step.from, step.to);
    HEDDLE_CHECK(conversion.has_value());
    if (conversion->exchanges && Places(conversion->axis) == 1) return {};
    return *conversion;
  }

  // An all-reduce works in place: where nobody needs the partial sums afterwards, in their buffer.
  void ShareBuffers() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].kind != StepNode::Kind::kConvert) continue;
      const Conversion conversion = ConversionAt(nodes_[n]);
      const bool sums = conversion.exchanges && conversion.kind == CollectiveKind::kAllReduce;
      const int32_t from = nodes_[n].in[0], to = nodes_[n].out[0];
      if (!sums || buffer(from).held || last_use_[static_cast<size_t>(from)] != n) continue;
      s_.values[static_cast<size_t>(to)].buffer = value(from).buffer;
    }
    buffer_last_use_.resize(s_.buffers.size(), 0);
    for (size_t v = 0; v < s_.values.size(); ++v) {
      size_t& last = buffer_last_use_[static_cast<size_t>(s_.values[v].buffer)];
      last = std::max(last, last_use_[v]);
    }
  }

  // --- Names -----------------------------------------------------------------------------------

  // The first buffer of a tensor needs no form; others are called after their layout.
  void Name(int32_t id) {
    std::set<std::string>& taken = forms_[value(id).tensor];
    std::string form;
    if (taken.contains(form)) {
      form = NameOf(value(id).layout);
      std::replace(form.begin(), form.end(), '\'', '_');
      const std::string base = form;
      for (int k = 2; taken.contains(form); ++k) form = fmt::format("{}_{}", base, k);
    }
    taken.insert(form);
    buffer(id).form = form;
  }

  void Release(int32_t id) { forms_[value(id).tensor].erase(buffer(id).form); }

  // --- Ops -------------------------------------------------------------------------------------

  static SegmentPhase PhaseOf(const Op& op) {
    if (op.phase == Phase::kForward) return SegmentPhase::kForward;
    return op.phase == Phase::kUpdate ? SegmentPhase::kUpdate : SegmentPhase::kBackward;
  }

  // A segment has one buffer of a tensor.
  bool Clashes(int32_t id) const {
    const auto found = collected_.find(value(id).tensor);
    return found != collected_.end() && value(found->second).buffer != value(id).buffer;
  }
  bool Touches(int32_t id) const {
    const auto found = collected_.find(value(id).tensor);
    return found != collected_.end() && value(found->second).buffer == value(id).buffer;
  }
  bool Writes(int32_t id) const { return Touches(id) && written_.contains(value(id).tensor); }

  void Collect(const StepNode& node) {
    const SegmentPhase phase = PhaseOf(g_.op(plan_.steps[node.step].op));
    bool fits = open_.empty() || phase == phase_;
    for (const auto* operands : {&node.in, &node.out}) {
      for (const int32_t id : *operands) fits = fits && !Clashes(id);
    }
    if (!fits) Flush();
    phase_ = phase;
    open_.push_back(at_);
    for (const int32_t id : node.in) collected_.try_emplace(value(id).tensor, id);
    for (size_t o = 0; o < node.out.size(); ++o) {
      const TensorId tensor = value(node.out[o]).tensor;
      collected_.insert_or_assign(tensor, node.out[o]);
      written_.insert(tensor);
      if (node.is_new[o]) made_.insert(tensor);
    }
  }

  // The ops collected so far become a piece.
  void Flush() {
    if (open_.empty()) return;
    const size_t last = open_.back();
    SpmdPiece piece;
    piece.phase = phase_;
    std::vector<int32_t> ended;
    std::set<TensorId> done;
    for (const size_t n : open_) {
      piece.steps.push_back(nodes_[n].step);
      for (const auto* operands : {&nodes_[n].in, &nodes_[n].out}) {
        for (const int32_t operand : *operands) {
          const TensorId tensor = value(operand).tensor;
          if (!done.insert(tensor).second) continue;
          AddPort(collected_.at(tensor), last, piece, ended);
        }
      }
    }
    s_.pieces.push_back(std::move(piece));
    open_.clear();
    collected_.clear();
    written_.clear();
    made_.clear();
    FreeExchanged(/*all=*/false);
    if (!ended.empty()) Free(ended);
  }

  void AddPort(int32_t id, size_t last, SpmdPiece& piece, std::vector<int32_t>& ended) {
    const TensorId tensor = value(id).tensor;
    const bool ends = Ends(id, last);
    const Role role = g_.tensor(tensor).role;
    PortUse use = PortUse::kRead;
    if (made_.contains(tensor)) {
      if (ends && role != Role::kLoss) return;  // stays inside
      if (role != Role::kLoss) Name(id);
      use = PortUse::kWrite;
    } else if (written_.contains(tensor)) {
      use = buffer(id).held ? PortUse::kChange : PortUse::kAccumulate;
      if (ends) ended.push_back(id);
    } else if (ends) {
      use = PortUse::kConsume;
      Release(id);
    }
    piece.ports.push_back({id, use});
  }

  // --- Conversions -----------------------------------------------------------------------------

  void Convert(const StepNode& node) {
    const Conversion conversion = ConversionAt(node);
    if (!conversion.exchanges) return Move(node);
    const int32_t from = node.in[0], to = node.out[0];
    const bool in_place = value(from).buffer == value(to).buffer;
    const bool sums = conversion.kind == CollectiveKind::kAllReduce;
    if (in_place && IsSum(g_, value(from).tensor)) return AddToBucket(node, conversion);
    if (Writes(from) || (in_place && Touches(from))) Flush();
    if (sums && !in_place) Move(node);  // a copy of its own, to sum in place
    SpmdPiece piece;
    piece.code = OpCode::kCollective;
    piece.conversion = conversion;
    piece.algorithm = plan_.steps[node.step].algorithm;
    piece.from = {sums ? to : from};
    piece.to = {to};
    if (!sums) Name(to);
    s_.pieces.push_back(std::move(piece));
    if (!sums && Ends(from, at_)) exchanged_.push_back({from, to, 0});
    if (Ends(to, at_)) exchanged_.push_back({to, to, 0});
    Flush();
  }

  // Each device by itself; also of a merge, which adds.
  void Move(const StepNode& node) {
    const int32_t from = node.in[0], to = node.out[0];
    const bool adds = !node.is_new[0];
    if (Touches(from) || Touches(to)) Flush();
    SpmdPiece piece;
    piece.from = {from};
    piece.to = {to};
    const SpmdStep& step = plan_.steps[node.step];
    const bool converts = node.kind == StepNode::Kind::kConvert;
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      piece.masks |= converts && Masks(step.from, step.to, axis);
    }
    if (!adds) Name(to);
    const bool ends = Ends(from, at_);
    const bool consumes = ends && !piece.masks;
    piece.ports = {{from, consumes ? PortUse::kConsume : PortUse::kRead},
                   {to, adds ? PortUse::kAccumulate : PortUse::kWrite}};
    if (consumes) Release(from);
    s_.pieces.push_back(std::move(piece));
    if (ends && !consumes) Free({from});
    if (Ends(to, at_) && !ConversionAtEnd(node)) Free({to});
  }

  // Is the move only the first half of a sum in place?
  bool ConversionAtEnd(const StepNode& node) const {
    return node.kind == StepNode::Kind::kConvert && ConversionAt(node).exchanges;
  }

  struct Bucket {
    std::vector<int32_t> from, to;
    std::vector<size_t> nodes;
    Bytes bytes;
  };
  using BucketKey = std::pair<int, CollectiveAlgorithm>;  // axis

  void AddToBucket(const StepNode& node, const Conversion& conversion) {
    const BucketKey key{conversion.axis, plan_.steps[node.step].algorithm};
    Bucket& bucket = buckets_[key];
    bucket.from.push_back(node.in[0]);
    bucket.to.push_back(node.out[0]);
    bucket.nodes.push_back(at_);
    const SpmdValue& sum = value(node.out[0]);
    const Tensor& tensor = g_.tensor(sum.tensor);
    bucket.bytes +=
        Bytes{ElementsOf(ShardOf(tensor.shape, sum.layout, plan_, {0, 0})) * SizeOf(tensor.dtype)};
    if (bucket.bytes < options_.bucket) return;
    Post(key, bucket);
    buckets_.erase(key);
  }

  // Does it use a sum that has not been posted yet?
  bool AwaitsBucket(const StepNode& node) const {
    for (const auto& item : buckets_) {
      for (const int32_t sum : item.second.to) {
        for (const auto* operands : {&node.in, &node.out}) {
          for (const int32_t id : *operands) {
            if (value(id).buffer == value(sum).buffer) return true;
          }
        }
      }
    }
    return false;
  }

  void Post(const BucketKey& key, const Bucket& bucket) {
    const bool open = std::any_of(bucket.from.begin(), bucket.from.end(),
                                  [&](int32_t from) { return Touches(from); });
    if (open) Flush();
    SpmdPiece piece;
    piece.code = OpCode::kCollective;
    piece.conversion = {true, CollectiveKind::kAllReduce, key.first};
    piece.algorithm = key.second;
    piece.from = bucket.from;
    piece.to = bucket.to;
    s_.pieces.push_back(std::move(piece));
    for (size_t k = 0; k < bucket.to.size(); ++k) {
      const int32_t to = bucket.to[k];
      if (Ends(to, bucket.nodes[k])) exchanged_.push_back({to, to, 0});
    }
  }

  void PostBuckets() {
    for (const auto& [key, bucket] : buckets_) Post(key, bucket);
    buckets_.clear();
  }

  // --- Ends ------------------------------------------------------------------------------------

  void Free(std::vector<int32_t> ids) {
    for (const int32_t id : ids) Release(id);
    SpmdPiece piece;
    piece.code = OpCode::kFree;
    piece.freed = std::move(ids);
    s_.pieces.push_back(std::move(piece));
  }

  // A free waits for the exchange that reads the buffer: only when somebody has waited already, or
  // it has had time to end.
  void FreeExchanged(bool all) {
    const SpmdPiece& last = s_.pieces.back();
    std::vector<int32_t> ended;
    std::erase_if(exchanged_, [&](Exchanged& waiting) {
      const bool used =
          std::any_of(last.ports.begin(), last.ports.end(), [&](const SpmdPort& port) {
            return value(port.value).buffer == value(waiting.to).buffer;
          });
      const bool ends = all || used || ++waiting.age > options_.free_behind;
      if (ends) ended.push_back(waiting.from);
      return ends;
    });
    if (!ended.empty()) Free(ended);
  }

  struct Exchanged {
    int32_t from, to;  // values
    int age;           // in pieces
  };

  const SpmdPlan& plan_;
  const Graph& g_;
  const SpmdScheduleOptions& options_;
  SpmdSchedule& s_;
  std::vector<StepNode> nodes_;
  std::vector<size_t> last_use_;         // by value
  std::vector<size_t> buffer_last_use_;  // by buffer
  size_t at_ = 0;
  std::map<TensorId, std::set<std::string>> forms_;  // in use
  SegmentPhase phase_ = SegmentPhase::kOther;
  std::vector<size_t> open_;               // nodes that are being collected
  std::map<TensorId, int32_t> collected_;  // their values
  std::set<TensorId> written_, made_;
  std::map<BucketKey, Bucket> buckets_;
  std::vector<Exchanged> exchanged_;
};

}  // namespace

SpmdSchedule ScheduleOf(const SpmdPlan& plan, const Graph& graph,
                        const SpmdScheduleOptions& options) {
  SpmdSchedule schedule;
  ValueFlow flow(plan, graph, schedule);
  std::vector<StepNode> nodes = flow.Run();
  PieceMaker(plan, graph, options, schedule, std::move(nodes), flow.last_use()).Run();
  return schedule;
}

}  // namespace heddle
