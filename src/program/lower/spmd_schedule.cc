#include "program/lower/spmd_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "program/lower/spmd_values.h"

namespace heddle {
namespace {

// Nodes become pieces.
class PieceMaker {
 public:
  PieceMaker(const SpmdPlan& plan, bool alone, const Graph& graph,
             const SpmdScheduleOptions& options, SpmdSchedule& schedule, ValueFlow flow)
      : plan_(plan),
        alone_(alone),
        g_(graph),
        options_(options),
        s_(schedule),
        nodes_(std::move(flow.nodes)),
        last_use_(std::move(flow.last_use)) {}

  void Run() {
    ShareBuffers();
    forms_.resize(1);
    forms_[0].resize(g_.tensors().size());
    collected_.assign(g_.tensors().size(), kNone);
    written_.assign(g_.tensors().size(), false);
    made_.assign(g_.tensors().size(), false);
    for (const SpmdBuffer& buffer : s_.buffers) {
      if (buffer.held) forms_[0][Index(buffer.tensor)].insert("");
    }
    for (at_ = 0; at_ < nodes_.size(); ++at_) {
      const StepNode& node = nodes_[at_];
      if (AwaitsBucket(node)) PostBuckets();
      switch (node.kind) {
        case StepNode::Kind::kOp:
          Collect(node);
          break;
        case StepNode::Kind::kMerge:
          Move(node);
          break;
        case StepNode::Kind::kConvert:
          Convert(node);
          break;
        case StepNode::Kind::kSend:
        case StepNode::Kind::kReceive:
          Pass(node);
          break;
        case StepNode::Kind::kTie:
          Tie(node);
          break;
        case StepNode::Kind::kLast:
          FreeLast(node);
          break;
      }
    }
    PostBuckets();
    Flush();
    FreeExchanged(/*all=*/true);
  }

 private:
  static size_t Index(TensorId id) { return static_cast<size_t>(id.value); }
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
  SpmdConversion ConversionAt(const StepNode& node) const {
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
      const SpmdConversion conversion = ConversionAt(nodes_[n]);
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
    std::set<std::string>& taken = FormsOf(id);
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

  void Release(int32_t id) { FormsOf(id).erase(buffer(id).form); }

  // Where several microbatches are in flight, buffers of different ones have different names
  // anyway.
  std::set<std::string>& FormsOf(int32_t id) {
    const Role role = g_.tensor(value(id).tensor).role;
    const bool own = role == Role::kActivation || role == Role::kGradient;
    const size_t of = alone_ || !own ? 0 : 1 + static_cast<size_t>(value(id).microbatch);
    if (of >= forms_.size()) forms_.resize(of + 1);
    if (forms_[of].empty()) forms_[of].resize(g_.tensors().size());
    return forms_[of][Index(value(id).tensor)];
  }

  // --- Ops -------------------------------------------------------------------------------------

  static SegmentPhase PhaseOf(const Op& op) {
    if (op.phase == Phase::kForward) return SegmentPhase::kForward;
    return op.phase == Phase::kUpdate ? SegmentPhase::kUpdate : SegmentPhase::kBackward;
  }

  // A segment has one buffer of a tensor.
  bool Clashes(int32_t id) const {
    const int32_t found = collected_[Index(value(id).tensor)];
    return found != kNone && value(found).buffer != value(id).buffer;
  }
  bool Touches(int32_t id) const {
    const int32_t found = collected_[Index(value(id).tensor)];
    return found != kNone && value(found).buffer == value(id).buffer;
  }
  bool Writes(int32_t id) const { return Touches(id) && written_[Index(value(id).tensor)]; }

  void Collect(const StepNode& node) {
    const SegmentPhase phase = PhaseOf(g_.op(plan_.steps[node.step].op));
    const auto alike = [&](const StepNode& open) {
      return phase == phase_ && node.microbatch == open.microbatch && node.again == open.again;
    };
    bool fits = open_.empty() || alike(nodes_[open_.back()]);
    for (const auto* operands : {&node.in, &node.out}) {
      for (const int32_t id : *operands) fits = fits && !Clashes(id);
    }
    if (!fits) Flush();
    phase_ = phase;
    open_.push_back(at_);
    for (const int32_t id : node.in) {
      int32_t& collected = collected_[Index(value(id).tensor)];
      if (collected == kNone) collected = id;
    }
    for (size_t o = 0; o < node.out.size(); ++o) {
      const size_t tensor = Index(value(node.out[o]).tensor);
      collected_[tensor] = node.out[o];
      written_[tensor] = true;
      if (node.is_new[o]) made_[tensor] = true;
    }
  }

  // The ops collected so far become a piece.
  void Flush() {
    if (open_.empty()) return;
    const size_t last = open_.back();
    SpmdPiece piece;
    piece.phase = phase_;
    piece.again = nodes_[last].again;
    piece.microbatch = nodes_[last].microbatch;
    std::vector<int32_t> ended;
    for (const size_t n : open_) {
      piece.steps.push_back(nodes_[n].step);
      for (const auto* operands : {&nodes_[n].in, &nodes_[n].out}) {
        for (const int32_t operand : *operands) {
          const size_t tensor = Index(value(operand).tensor);
          if (collected_[tensor] == kNone) continue;  // done
          AddPort(std::exchange(collected_[tensor], kNone), last, piece, ended);
          written_[tensor] = made_[tensor] = false;
        }
      }
    }
    s_.pieces.push_back(std::move(piece));
    open_.clear();
    FreeExchanged(/*all=*/false);
    if (!ended.empty()) Free(ended);
  }

  void AddPort(int32_t id, size_t last, SpmdPiece& piece, std::vector<int32_t>& ended) {
    const TensorId tensor = value(id).tensor;
    const bool ends = Ends(id, last);
    const Role role = g_.tensor(tensor).role;
    PortUse use = PortUse::kRead;
    if (made_[Index(tensor)]) {
      const bool logged = role == Role::kLoss && !piece.again;
      if (ends && !logged) return;  // stays inside
      if (role != Role::kLoss) Name(id);
      use = PortUse::kWrite;
    } else if (written_[Index(tensor)]) {
      use = buffer(id).held ? PortUse::kChange : PortUse::kAccumulate;
      if (ends) ended.push_back(id);
    } else if (ends) {
      use = PortUse::kConsume;
      Release(id);
    }
    piece.ports.push_back({id, use});
  }

  // --- Other stages ----------------------------------------------------------------------------

  void Pass(const StepNode& node) {
    const bool sends = node.kind == StepNode::Kind::kSend;
    SpmdPiece piece;
    piece.code = sends ? OpCode::kSend : OpCode::kRecv;
    piece.microbatch = node.microbatch;
    piece.lane = node.lane;
    piece.from = node.in;
    piece.to = node.out;
    if (sends && Writes(node.in[0])) Flush();
    if (!sends) Name(node.out[0]);
    s_.pieces.push_back(std::move(piece));
    if (!sends && Ends(node.out[0], at_)) exchanged_.push_back({node.out[0], node.out[0], 0});
  }

  // Posted once for each weight, after the sums of this stage.
  void Tie(const StepNode& node) {
    if (Touches(node.in[0])) Flush();
    SpmdPiece piece;
    piece.code = OpCode::kCollective;
    piece.conversion = {true, CollectiveKind::kAllReduce, kMeshAxes};
    piece.tied = true;
    piece.from = piece.to = node.in;
    s_.pieces.push_back(std::move(piece));
  }

  // What was sent and has arrived, and nobody here uses any more.
  void FreeLast(const StepNode& node) {
    std::set<int32_t> buffers;
    std::vector<int32_t> ended;
    for (const int32_t id : node.in) {
      if (Ends(id, at_) && buffers.insert(value(id).buffer).second) ended.push_back(id);
    }
    const bool open =
        std::any_of(ended.begin(), ended.end(), [&](int32_t id) { return Touches(id); });
    if (open) Flush();
    if (!ended.empty()) Free(ended);
  }

  // --- Conversions -----------------------------------------------------------------------------

  void Convert(const StepNode& node) {
    const SpmdConversion conversion = ConversionAt(node);
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
    piece.microbatch = node.microbatch;
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

  void AddToBucket(const StepNode& node, const SpmdConversion& conversion) {
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
  const bool alone_;
  const Graph& g_;
  const SpmdScheduleOptions& options_;
  SpmdSchedule& s_;
  std::vector<StepNode> nodes_;
  std::vector<size_t> last_use_;         // by value
  std::vector<size_t> buffer_last_use_;  // by buffer
  size_t at_ = 0;
  static constexpr int32_t kNone = -1;
  // In use, by tensor: of weights, or of everything where the stage is alone; then by microbatch.
  std::vector<std::vector<std::set<std::string>>> forms_;
  SegmentPhase phase_ = SegmentPhase::kOther;
  std::vector<size_t> open_;          // nodes that are being collected
  std::vector<int32_t> collected_;    // their values, by tensor
  std::vector<bool> written_, made_;  // by tensor
  std::map<BucketKey, Bucket> buckets_;
  std::vector<Exchanged> exchanged_;
};

}  // namespace

namespace {

SpmdSchedule MakeSchedule(const SpmdPlan& plan, const BodyShape& shape, const StageFlow& stage,
                          const Graph& graph, const SpmdScheduleOptions& options) {
  SpmdSchedule schedule;
  ValueFlow flow = FlowOf(plan, shape, stage, graph, schedule);
  PieceMaker(plan, stage.alone, graph, options, schedule, std::move(flow)).Run();
  return schedule;
}

}  // namespace

StageFlow AloneFlow(int32_t microbatches) {
  StageFlow flow;
  for (int32_t m = 0; m < microbatches; ++m) {
    for (const bool forward : {true, false}) flow.items.push_back({0, forward, m, {}});
  }
  return flow;
}

SpmdSchedule ScheduleOf(const SpmdPlan& plan, const Graph& graph,
                        const SpmdScheduleOptions& options) {
  return MakeSchedule(plan, WholeShape(plan, graph), AloneFlow(options.microbatches), graph,
                      options);
}

SpmdSchedule ScheduleOf(const StageBody& body, const StageFlow& stage, const Graph& graph,
                        const SpmdScheduleOptions& options) {
  return MakeSchedule(body.program, body.shape, stage, graph, options);
}

}  // namespace heddle
