#include "program/lower/spmd_lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "model/microbatch_graph.h"
#include "program/lower/segment_maker.h"
#include "program/lower/spmd_schedule.h"
#include "program/plan/spmd_check.h"
#include "program/program_tables.h"

namespace heddle {
namespace {

using Place = std::array<size_t, kMeshAxes>;

// Which part of what every device has. ShardOf, but each division of an axis once.
class ShardTable {
 public:
  explicit ShardTable(const SpmdPlan& plan) : plan_(plan) {}

  Range Cut(Range range, size_t axis, int ratios, size_t place) {
    std::vector<Range>& parts = parts_[{axis, ratios, range.size()}];
    if (parts.empty()) {
      parts = ShardRanges(range.size(), plan_.ratios[axis][static_cast<size_t>(ratios)]);
    }
    return {range.begin + parts[place].begin, range.begin + parts[place].end};
  }

  Slice PartOf(const Tensor& tensor, const Layout& layout, const Place& place) {
    Slice slice;
    for (const int64_t extent : tensor.shape) slice.push_back({0, extent});
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      if (layout[axis].kind != ShardKind::kSharded) continue;
      Range& range = slice[static_cast<size_t>(layout[axis].dim)];
      range = Cut(range, axis, layout[axis].ratios, place[axis]);
    }
    return slice;
  }

  // The parts of the op's letters that are not whole.
  Shards ShardsOf(const Op& op, const OpRule& rule, const Place& place) {
    Shards shards;
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const char letter = rule[axis].letter;
      if (letter == 0) continue;
      const bool twice = !shards.empty() && shards.back().first == letter;
      if (!twice) shards.push_back({letter, {0, op.extents[op.IndexOf(letter)]}});
      Range& range = shards.back().second;
      range = Cut(range, axis, rule[axis].ratios, place[axis]);
    }
    std::sort(shards.begin(), shards.end());
    return shards;
  }

 private:
  const SpmdPlan& plan_;
  std::map<std::tuple<size_t, int, int64_t>, std::vector<Range>> parts_;
};

class SpmdLowering {
 public:
  SpmdLowering(const Plan& plan, const Graph& graph, const LowerOptions& options, Program& program)
      : plan_(*plan.spmd),
        g_(graph),
        p_(program),
        tables_(program),
        shards_(plan_),
        schedule_(ScheduleOf(
            plan_, graph,
            {plan.bucket, options.free_behind, static_cast<int32_t>(plan.microbatches)})) {
    for (const Tensor& tensor : graph.tensors()) {
      tables_.AddTensor({tensor.name, tensor.dtype, tensor.shape, tensor.role});
    }
    ops_.resize(plan_.steps.size());
    for (const SpmdPiece& piece : schedule_.pieces) {
      for (const size_t k : piece.steps) ops_[k] = tables_.AddOp(g_.op(plan_.steps[k].op).name);
    }
    NumberParts();
    NumberPieces();
  }

  void Run() {
    for (size_t node = 0; node < plan_.mesh.size(); ++node) {
      for (size_t k = 0; k < plan_.mesh[node].size(); ++k) {
        p_.devices.emplace_back().name = plan_.mesh[node][k];
        places_.push_back({node, k});
      }
    }
    for (size_t d = 0; d < places_.size(); ++d) {
      device_ = static_cast<int32_t>(d);
      place_ = places_[d];
      slices_.assign(parts_.size(), kUnknown);
      for (const int32_t held : schedule_.held) p_.devices[d].holds.push_back(RefOf(held));
      for (size_t k = 0; k < schedule_.pieces.size(); ++k) Emit(schedule_.pieces[k], k);
    }
  }

 private:
  const SpmdValue& value(int32_t id) const { return schedule_.values[static_cast<size_t>(id)]; }
  const Tensor& tensor(int32_t id) const { return g_.tensor(value(id).tensor); }

  // What is the same on all devices, or for all tensors of a shape, is looked at once. Values of
  // tensors of one shape in one layout are parts of one kind: devices have the same slices of them.
  void NumberParts() {
    std::map<std::vector<int64_t>, int> shapes;
    std::vector<int> shape_of;
    for (const Tensor& one : g_.tensors()) {
      shape_of.push_back(
          shapes.try_emplace(one.shape, static_cast<int>(shapes.size())).first->second);
    }
    std::map<std::pair<int, Layout>, int32_t> known;
    for (size_t v = 0; v < schedule_.values.size(); ++v) {
      const SpmdValue& one = schedule_.values[v];
      const auto next = static_cast<int32_t>(parts_.size());
      const auto [found, is_new] =
          known.try_emplace({shape_of[static_cast<size_t>(one.tensor.value)], one.layout}, next);
      if (is_new) parts_.push_back(static_cast<int32_t>(v));
      part_of_.push_back(found->second);
    }
    forms_.assign(schedule_.values.size(), kUnknown);
  }

  // Pieces that differ in their microbatch alone have one number.
  void NumberPieces() {
    std::map<std::vector<size_t>, int32_t> steps;
    std::map<std::vector<int64_t>, int32_t> kinds;
    for (const SpmdPiece& piece : schedule_.pieces) {
      piece_kinds_.push_back(kUnknown);
      piece_steps_.push_back(kUnknown);
      for (const auto* ids : {&piece.from, &piece.to, &piece.freed}) {
        for (const int32_t id : *ids) FormOf(id);
      }
      if (piece.code != OpCode::kCompute) continue;
      const auto next_steps = static_cast<int32_t>(steps.size());
      piece_steps_.back() = steps.try_emplace(piece.steps, next_steps).first->second;
      std::vector<int64_t> key = {piece_steps_.back(), static_cast<int64_t>(piece.phase),
                                  piece.masks ? 1 : 0};
      for (const SpmdPort& port : piece.ports) {
        key.insert(key.end(),
                   {value(port.value).tensor.value, part_of_[static_cast<size_t>(port.value)],
                    FormOf(port.value), static_cast<int64_t>(port.use)});
      }
      const auto next_kind = static_cast<int32_t>(kinds.size());
      piece_kinds_.back() = kinds.try_emplace(std::move(key), next_kind).first->second;
    }
    segments_.resize(steps.size());
    computes_.resize(kinds.size());
  }

  int32_t FormOf(int32_t id) {
    int32_t& form = forms_[static_cast<size_t>(id)];
    if (form == kUnknown) {
      const std::string& name = schedule_.buffers[static_cast<size_t>(value(id).buffer)].form;
      form = name.empty() ? -1 : tables_.AddForm(name);
    }
    return form;
  }

  // This device's buffer of a value.
  BufferRef RefOf(int32_t id) {
    BufferRef ref;
    ref.tensor = value(id).tensor.value;  // the Program has the graph's tensors
    ref.form = FormOf(id);
    int32_t& slice = slices_[static_cast<size_t>(part_of_[static_cast<size_t>(id)])];
    if (slice == kUnknown) {
      slice = tables_.AddSlice(ref.tensor, shards_.PartOf(tensor(id), value(id).layout, place_));
    }
    ref.slice = slice;
    if (PerMicrobatch(tensor(id))) ref.microbatch = Index::At(value(id).microbatch);
    return ref;
  }

  void Emit(const SpmdPiece& piece, size_t number) {
    if (piece.code == OpCode::kCompute) return EmitCompute(piece, number);
    if (piece.code == OpCode::kCollective) return EmitExchange(piece);
    std::vector<BufferRef> freed;
    for (const int32_t id : piece.freed) {
      freed.push_back(RefOf(id));
      freed.back().slice = -1;
    }
    tables_.Emit(device_, OpCode::kFree, freed);
  }

  // --- Computes --------------------------------------------------------------------------------

  // A loss that several have is logged by the first.
  bool Logs(int32_t id) const {
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const bool all = value(id).layout[axis].kind == ShardKind::kReplicated;
      if (all && place_[axis] > 0) return false;
    }
    return true;
  }

  // Of a move that masks: is this one of the devices that get zeros?
  bool IsMasked(const SpmdPiece& piece) const {
    if (!piece.masks) return false;
    const Layout& from = value(piece.from[0]).layout;
    const Layout& to = value(piece.to[0]).layout;
    return (Masks(from, to, 0) && place_[0] > 0) || (Masks(from, to, 1) && place_[1] > 0);
  }

  void EmitCompute(const SpmdPiece& piece, size_t number) {
    std::vector<Compute>& known = computes_[static_cast<size_t>(piece_kinds_[number])];
    if (known.size() == static_cast<size_t>(device_)) known.push_back(MakeCompute(piece, number));
    Instruction in;
    in.target = known[static_cast<size_t>(device_)].segment;
    if (known[static_cast<size_t>(device_)].per_microbatch) {
      in.microbatch = Index::At(piece.microbatch);
    }
    tables_.Emit(device_, in, {});
  }

  struct Compute {
    int32_t segment;
    bool per_microbatch;
  };

  Compute MakeCompute(const SpmdPiece& piece, size_t number) {
    Segment segment;
    segment.phase = piece.phase;
    for (const size_t k : piece.steps) {
      const SpmdStep& step = plan_.steps[k];
      const Op& op = g_.op(step.op);
      SegmentOp part = ops_[k];
      part.shards = AddShards(shards_.ShardsOf(op, step.rule, place_));
      segment.ops.push_back(part);
    }
    bool per_microbatch = piece.phase != SegmentPhase::kUpdate && !piece.steps.empty();
    const bool masked = IsMasked(piece);
    for (const SpmdPort& made : piece.ports) {
      const Role role = tensor(made.value).role;
      if (role == Role::kLoss && !Logs(made.value)) continue;
      if (masked && made.use == PortUse::kRead) continue;
      const BufferRef ref = RefOf(made.value);
      Port port;
      port.tensor = ref.tensor;
      port.form = ref.form;
      port.slice = ref.slice;
      port.use = made.use;
      port.per_microbatch = ref.microbatch.present();
      per_microbatch |= port.per_microbatch;
      segment.ports.push_back(port);
    }
    return {SegmentFor(std::move(segment), piece, number), per_microbatch};
  }

  int32_t AddShards(const Shards& shards) {
    if (shards.empty()) return -1;
    const auto [found, is_new] =
        shard_ids_.try_emplace(shards, static_cast<int32_t>(p_.op_shards.size()));
    if (!is_new) return found->second;
    p_.op_shards.push_back(shards);
    std::vector<std::pair<char, int64_t>> lengths;
    for (const auto& [letter, range] : shards) lengths.emplace_back(letter, range.size());
    const auto next = static_cast<int32_t>(length_ids_.size());
    lengths_.push_back(length_ids_.try_emplace(std::move(lengths), next).first->second);
    return found->second;
  }

  // Devices with the same parts share a segment, and so do microbatches.
  int32_t SegmentFor(Segment segment, const SpmdPiece& piece, size_t number) {
    std::vector<int32_t> shards;
    for (const SegmentOp& op : segment.ops) shards.push_back(op.shards);
    auto& known = segments_[static_cast<size_t>(piece_steps_[number])];
    const auto [found, is_new] = known.try_emplace(std::pair(std::move(shards), segment.ports), -1);
    if (!is_new) return found->second;
    static constexpr std::string_view kLetters = "FBIWUM";
    segment.name = fmt::format("{}{}", kLetters[static_cast<size_t>(piece.phase)], number);
    if (!piece.steps.empty() && piece.phase != SegmentPhase::kUpdate) {
      segment.rows = {0, g_.batch()};
      segment.joint = true;
      segment.first_layer = INT32_MAX;
      for (const size_t k : piece.steps) {
        const int32_t layer = g_.op(plan_.steps[k].op).layer.value;
        segment.first_layer = std::min(segment.first_layer, layer);
        segment.last_layer = std::max(segment.last_layer, layer);
      }
    }
    segment.scratch = ScratchFor(segment, piece, number);
    found->second = tables_.AddSegment(std::move(segment));
    return found->second;
  }

  // It depends on the lengths of the parts alone, which most devices share.
  Bytes ScratchFor(const Segment& segment, const SpmdPiece& piece, size_t number) {
    if (piece.steps.empty()) return ScratchOf(segment, piece);
    std::vector<int32_t> lengths;
    for (const SegmentOp& op : segment.ops) {
      lengths.push_back(op.shards < 0 ? -1 : lengths_[static_cast<size_t>(op.shards)]);
    }
    const auto [found, is_new] = scratches_.try_emplace({number, std::move(lengths)});
    if (is_new) found->second = ScratchOf(segment, piece);
    return found->second;
  }

  // Does the op compute into this input, which ends with it?
  bool GivenAway(const Op& op, size_t input, const std::map<TensorId, Bytes>& ended) const {
    const TensorId id = op.inputs[input].tensor;
    const Role role = g_.tensor(id).role;
    return ended.contains(id) && (role == Role::kActivation || role == Role::kGradient);
  }

  // Most memory at once inside the segment, beyond what was there before.
  Bytes ScratchOf(const Segment& segment, const SpmdPiece& piece) {
    std::map<TensorId, PortUse> uses;
    for (const SpmdPort& port : piece.ports) uses[value(port.value).tensor] = port.use;
    std::map<TensorId, size_t> last_use;
    for (size_t k = 0; k < piece.steps.size(); ++k) {
      const Op& op = g_.op(plan_.steps[piece.steps[k]].op);
      for (const auto* operands : {&op.inputs, &op.outputs}) {
        for (const Operand& operand : *operands) last_use[operand.tensor] = k;
      }
    }
    Bytes live, peak;
    std::set<TensorId> appeared;
    for (size_t k = 0; k < piece.steps.size(); ++k) {
      const SpmdStep& step = plan_.steps[piece.steps[k]];
      const Op& op = g_.op(step.op);
      std::vector<int64_t> extents = op.extents;
      for (const auto& [letter, range] : p_.ShardsOf(segment.ops[k])) {
        extents[op.IndexOf(letter)] = range.size();
      }
      const auto size = [&](const Operand& operand) {
        const DType dtype = g_.tensor(operand.tensor).dtype;
        return Bytes{heddle::ElementsOf(op, operand, extents) * SizeOf(dtype)};
      };
      Bytes temporary = WorkspaceOf(g_, op, extents);
      std::map<TensorId, Bytes> ended;
      for (const auto* operands : {&op.inputs, &op.outputs}) {
        for (const Operand& operand : *operands) {
          const auto use = uses.find(operand.tensor);
          const bool made = use == uses.end() || use->second == PortUse::kWrite;
          const bool data = g_.tensor(operand.tensor).role == Role::kInput;
          const bool adds =
              operands == &op.outputs && use != uses.end() && use->second == PortUse::kAccumulate;
          if ((made || data) && appeared.insert(operand.tensor).second) live += size(operand);
          if (adds && !InfoOf(op.kind).adds) temporary += size(operand);
          const bool released = use == uses.end() || use->second == PortUse::kConsume || data;
          if (released && last_use[operand.tensor] == k) ended[operand.tensor] = size(operand);
        }
      }
      const int8_t reused = InfoOf(op.kind).in_place;
      const bool in_place = reused >= 0 && GivenAway(op, static_cast<size_t>(reused), ended);
      if (in_place) temporary -= size(op.outputs[0]);
      peak = std::max(peak, live + temporary);
      for (const auto& item : ended) live -= item.second;
    }
    if (!piece.steps.empty()) return peak;
    for (const Port& port : segment.ports) {  // a move
      if (port.use == PortUse::kWrite) peak += p_.BytesOf(port.tensor, port.slice);
    }
    return peak;
  }

  // --- Exchanges -------------------------------------------------------------------------------

  // Devices along the axis through this one, in rank order.
  std::vector<int32_t> MembersAlong(int axis) const {
    std::vector<int32_t> members;
    for (size_t d = 0; d < places_.size(); ++d) {
      const bool same_node = places_[d][0] == place_[0], same_place = places_[d][1] == place_[1];
      if (axis == kMeshAxes || (axis == 0 ? same_place : same_node)) {
        members.push_back(static_cast<int32_t>(d));
      }
    }
    return members;
  }

  Division DivisionOf(int32_t id, int axis, const std::vector<int32_t>& members) {
    const ShardState& state = value(id).layout[axis == kMeshAxes ? 0 : static_cast<size_t>(axis)];
    Division division;
    division.dim = state.dim;
    for (const int32_t member : members) {
      const Slice part =
          shards_.PartOf(tensor(id), value(id).layout, places_[static_cast<size_t>(member)]);
      division.sizes.push_back(part[static_cast<size_t>(state.dim)].size());
    }
    return division;
  }

  // Who takes part in an exchange, and how it divides what.
  struct Exchange {
    int32_t group = -1, shape = -1;
  };

  // The same for all members, and for all tensors of a shape.
  const Exchange& ExchangeOf(const SpmdPiece& piece) {
    const auto [kind, axis] = std::pair(piece.conversion.kind, piece.conversion.axis);
    const size_t group = axis == kMeshAxes ? 0 : place_[axis == 0 ? 1 : 0];
    const bool divides = kind != CollectiveKind::kAllReduce;
    const auto part = [&](int32_t id) { return divides ? part_of_[static_cast<size_t>(id)] : -1; };
    const auto [found, is_new] = exchanges_.try_emplace(
        std::tuple(kind, axis, group, part(piece.from[0]), part(piece.to[0])));
    Exchange& made = found->second;
    if (!is_new) return made;
    const std::vector<int32_t> members = MembersAlong(axis);
    made.group = tables_.AddGroup(members);
    if (!divides) return made;
    CollectiveShape shape;
    const bool divides_output = kind == CollectiveKind::kReduceScatter;
    shape.from = DivisionOf(divides_output ? piece.to[0] : piece.from[0], axis, members);
    if (kind == CollectiveKind::kAllToAll) shape.to = DivisionOf(piece.to[0], axis, members);
    const auto [same, is_other] =
        shape_ids_.try_emplace(shape, static_cast<int32_t>(p_.shapes.size()));
    if (is_other) p_.shapes.push_back(std::move(shape));
    made.shape = same->second;
    return made;
  }

  void EmitExchange(const SpmdPiece& piece) {
    const Exchange& exchange = ExchangeOf(piece);
    Instruction in;
    in.code = OpCode::kCollective;
    in.kind = piece.conversion.kind;
    in.algorithm = piece.algorithm;
    in.target = exchange.group;
    in.shape = exchange.shape;
    std::vector<BufferRef> operands;
    for (const int32_t from : piece.from) operands.push_back(RefOf(from));
    if (in.kind != CollectiveKind::kAllReduce) {
      operands.push_back(RefOf(piece.to[0]));
      in.output_count = 1;
    }
    tables_.Emit(device_, in, operands);
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  Program& p_;
  ProgramTables tables_;
  ShardTable shards_;
  SpmdSchedule schedule_;
  std::vector<Place> places_;  // by device
  int32_t device_ = 0;         // at work
  Place place_{};              //
  static constexpr int32_t kUnknown = -2;
  std::vector<int32_t> part_of_, forms_;            // by value
  std::vector<int32_t> parts_;                      // a value of each kind of parts
  std::vector<int32_t> slices_;                     // by kind of parts: this device's
  std::vector<int32_t> piece_kinds_, piece_steps_;  // by piece; of computes
  std::vector<std::vector<Compute>> computes_;      // by kind of piece and device
  std::vector<SegmentOp> ops_;                      // by step of the plan
  std::map<std::tuple<CollectiveKind, int, size_t, int32_t, int32_t>, Exchange> exchanges_;
  std::map<Shards, int32_t> shard_ids_;
  std::map<std::vector<std::pair<char, int64_t>>, int32_t> length_ids_;
  std::vector<int32_t> lengths_;  // by shards: equal where the parts are equally long
  std::map<std::pair<size_t, std::vector<int32_t>>, Bytes> scratches_;  // by piece and lengths
  std::map<CollectiveShape, int32_t> shape_ids_;
  // By steps, shards and ports.
  std::vector<std::map<std::pair<std::vector<int32_t>, std::vector<Port>>, int32_t>> segments_;
};

}  // namespace

Result<Program> LowerSpmd(const Plan& plan, const Graph& graph, const LowerOptions& options,
                          Program program) {
  HEDDLE_RETURN_IF_ERROR(CheckSpmdPlan(*plan.spmd, graph, "plan: spmd"));
  program.layers = static_cast<int32_t>(graph.layers().size());
  const int64_t rows = graph.batch() / plan.microbatches;
  program.microbatch_rows.assign(static_cast<size_t>(plan.microbatches), rows);
  if (plan.microbatches == 1) {
    SpmdLowering(plan, graph, options, program).Run();
  } else {
    SpmdLowering(plan, MicrobatchGraph(graph, rows), options, program).Run();
  }
  return program;
}

}  // namespace heddle
