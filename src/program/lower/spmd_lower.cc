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
      refs_.clear();
      for (const int32_t held : schedule_.held) p_.devices[d].holds.push_back(RefOf(held));
      for (size_t k = 0; k < schedule_.pieces.size(); ++k) Emit(schedule_.pieces[k], k);
    }
  }

 private:
  const SpmdValue& value(int32_t id) const { return schedule_.values[static_cast<size_t>(id)]; }
  const Tensor& tensor(int32_t id) const { return g_.tensor(value(id).tensor); }

  // This device's buffer of a value.
  const BufferRef& RefOf(int32_t id) {
    const auto [found, is_new] = refs_.try_emplace(id);
    if (!is_new) return found->second;
    BufferRef& ref = found->second;
    const std::string& form = schedule_.buffers[static_cast<size_t>(value(id).buffer)].form;
    ref.tensor = value(id).tensor.value;  // the Program has the graph's tensors
    ref.form = form.empty() ? -1 : tables_.AddForm(form);
    ref.slice = tables_.AddSlice(ref.tensor, shards_.PartOf(tensor(id), value(id).layout, place_));
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
      const BufferRef& ref = RefOf(made.value);
      Port port;
      port.tensor = ref.tensor;
      port.form = ref.form;
      port.slice = ref.slice;
      port.use = made.use;
      port.per_microbatch = ref.microbatch.present();
      per_microbatch |= port.per_microbatch;
      segment.ports.push_back(port);
    }
    Instruction in;
    in.target = SegmentFor(std::move(segment), piece, number);
    if (per_microbatch) in.microbatch = Index::At(piece.microbatch);
    tables_.Emit(device_, in, {});
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
    const auto [found, is_new] =
        segments_.try_emplace(std::tuple(piece.steps, std::move(shards), segment.ports), -1);
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

  void EmitExchange(const SpmdPiece& piece) {
    const auto [kind, axis] = std::pair(piece.conversion.kind, piece.conversion.axis);
    const std::vector<int32_t> members = MembersAlong(axis);
    Instruction in;
    in.code = OpCode::kCollective;
    in.kind = kind;
    in.algorithm = piece.algorithm;
    in.target = tables_.AddGroup(members);
    std::vector<BufferRef> operands;
    for (const int32_t from : piece.from) operands.push_back(RefOf(from));
    if (kind != CollectiveKind::kAllReduce) {
      operands.push_back(RefOf(piece.to[0]));
      in.output_count = 1;
      CollectiveShape shape;
      const bool divides_output = kind == CollectiveKind::kReduceScatter;
      shape.from = DivisionOf(divides_output ? piece.to[0] : piece.from[0], axis, members);
      if (kind == CollectiveKind::kAllToAll) shape.to = DivisionOf(piece.to[0], axis, members);
      const auto [found, is_new] =
          shape_ids_.try_emplace(shape, static_cast<int32_t>(p_.shapes.size()));
      if (is_new) p_.shapes.push_back(std::move(shape));
      in.shape = found->second;
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
  std::map<int32_t, BufferRef> refs_;
  std::vector<SegmentOp> ops_;  // by step
  std::map<Shards, int32_t> shard_ids_;
  std::map<std::vector<std::pair<char, int64_t>>, int32_t> length_ids_;
  std::vector<int32_t> lengths_;  // by shards: equal where the parts are equally long
  std::map<std::pair<size_t, std::vector<int32_t>>, Bytes> scratches_;  // by piece and lengths
  std::map<CollectiveShape, int32_t> shape_ids_;
  std::map<std::tuple<std::vector<size_t>, std::vector<int32_t>, std::vector<Port>>, int32_t>
      segments_;
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
