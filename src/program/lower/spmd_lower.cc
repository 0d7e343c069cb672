#include "program/lower/spmd_lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "model/microbatch_graph.h"
#include "program/lower/boundary.h"
#include "program/lower/post_order.h"
#include "program/lower/segment_maker.h"
#include "program/lower/shard_table.h"
#include "program/lower/spmd_schedule.h"
#include "program/lower/spmd_scratch.h"
#include "program/plan/body_check.h"
#include "program/plan/spmd_check.h"
#include "program/program_tables.h"

namespace heddle {
namespace {

// What the stages of a Program share.
struct SharedTables {
  SharedTables(const Graph& graph, Program& program) : tables(program) {
    for (const Tensor& tensor : graph.tensors()) {
      tables.AddTensor({tensor.name, tensor.dtype, tensor.shape, tensor.role});
    }
  }

  ProgramTables tables;
  std::map<Shards, int32_t> shard_ids;
  std::map<std::vector<std::pair<char, int64_t>>, int32_t> length_ids;
  std::vector<int32_t> lengths;  // by shards: equal where the parts are equally long
  std::map<CollectiveShape, int32_t> shape_ids;
};

// What a device sends and receives for a lane.
struct LaneParcels {
  std::map<int32_t, std::vector<Parcel>> of_giver, of_taker;  // by device
};

// All that goes between stages.
struct Traffic {
  const StageLanes& lanes;
  std::vector<LaneParcels> parcels;  // by lane
  int64_t microbatches = 1;
  CollectiveAlgorithm all_reduce = CollectiveAlgorithm::kRing;
  std::vector<int32_t> first_devices;  // by stage
};

// Writes the lists of a stage's devices, which it adds to the Program.
class StageLowering {
 public:
  StageLowering(const SpmdPlan& plan, SpmdSchedule schedule, std::string prefix, const Graph& graph,
                SharedTables& shared, Program& program)
      : plan_(plan),
        g_(graph),
        p_(program),
        shared_(shared),
        tables_(shared.tables),
        shards_(plan_),
        schedule_(std::move(schedule)),
        prefix_(std::move(prefix)),
        first_(static_cast<int32_t>(program.devices.size())) {
    ops_.resize(plan_.steps.size());
    for (const SpmdPiece& piece : schedule_.pieces) {
      for (const size_t k : piece.steps) ops_[k] = tables_.AddOp(g_.op(plan_.steps[k].op).name);
    }
    NumberParts();
    NumberPieces();
    for (size_t node = 0; node < plan_.mesh.size(); ++node) {
      for (size_t k = 0; k < plan_.mesh[node].size(); ++k) {
        p_.devices.emplace_back().name = plan_.mesh[node][k];
        places_.push_back({node, k});
      }
    }
  }

  int32_t first_device() const { return first_; }
  const SpmdSchedule& schedule() const { return schedule_; }

  // Who has what of a tensor.
  BoundarySide SideOf(TensorId id, const Layout& layout) {
    BoundarySide side;
    for (size_t d = 0; d < places_.size(); ++d) {
      side.devices.push_back(first_ + static_cast<int32_t>(d));
      const std::string& name = p_.devices[static_cast<size_t>(side.devices.back())].name;
      side.nodes.push_back(name.substr(0, name.rfind(':')));
      side.parts.push_back(shards_.PartOf(g_.tensor(id), layout, places_[d]));
    }
    return side;
  }

  // `traffic` is null where there are no other stages.
  void Run(const Traffic* traffic) {
    traffic_ = traffic;
    for (local_ = 0; local_ < places_.size(); ++local_) {
      device_ = first_ + static_cast<int32_t>(local_);
      place_ = places_[local_];
      slices_.assign(parts_.size(), kUnknown);
      DeviceProgram& device = p_.devices[static_cast<size_t>(device_)];
      for (const int32_t held : schedule_.held) device.holds.push_back(RefOf(held));
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
    std::map<std::pair<bool, std::vector<size_t>>, int32_t> steps;
    std::map<std::vector<int64_t>, int32_t> kinds;
    for (const SpmdPiece& piece : schedule_.pieces) {
      piece_kinds_.push_back(kUnknown);
      piece_steps_.push_back(kUnknown);
      for (const auto* ids : {&piece.from, &piece.to, &piece.freed}) {
        for (const int32_t id : *ids) FormOf(id);
      }
      if (piece.code != OpCode::kCompute) continue;
      const auto next_steps = static_cast<int32_t>(steps.size());
      piece_steps_.back() = steps.try_emplace({piece.again, piece.steps}, next_steps).first->second;
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
    if (piece.code != OpCode::kFree) return EmitMessages(piece);
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
    if (known.size() == local_) known.push_back(MakeCompute(piece, number));
    Instruction in;
    in.target = known[local_].segment;
    if (known[local_].per_microbatch) {
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
    segment.recompute = piece.again;
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
        shared_.shard_ids.try_emplace(shards, static_cast<int32_t>(p_.op_shards.size()));
    if (!is_new) return found->second;
    p_.op_shards.push_back(shards);
    std::vector<std::pair<char, int64_t>> lengths;
    for (const auto& [letter, range] : shards) lengths.emplace_back(letter, range.size());
    const auto next = static_cast<int32_t>(shared_.length_ids.size());
    shared_.lengths.push_back(
        shared_.length_ids.try_emplace(std::move(lengths), next).first->second);
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
    const char letter = piece.again ? 'R' : kLetters[static_cast<size_t>(piece.phase)];
    segment.name = fmt::format("{}{}{}", prefix_, letter, number);
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
    if (piece.steps.empty()) return ScratchOf(p_, segment, plan_, schedule_, piece, g_);
    std::vector<int32_t> lengths;
    for (const SegmentOp& op : segment.ops) {
      lengths.push_back(op.shards < 0 ? -1 : shared_.lengths[static_cast<size_t>(op.shards)]);
    }
    const auto [found, is_new] = scratches_.try_emplace({number, std::move(lengths)});
    if (is_new) found->second = ScratchOf(p_, segment, plan_, schedule_, piece, g_);
    return found->second;
  }

  // --- Exchanges -------------------------------------------------------------------------------

  // Devices along the axis through this one, in rank order, counted in the mesh.
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
    std::vector<int32_t> devices;
    for (const int32_t member : members) devices.push_back(first_ + member);
    made.group = tables_.AddGroup(devices);
    if (!divides) return made;
    CollectiveShape shape;
    const bool divides_output = kind == CollectiveKind::kReduceScatter;
    shape.from = DivisionOf(divides_output ? piece.to[0] : piece.from[0], axis, members);
    if (kind == CollectiveKind::kAllToAll) shape.to = DivisionOf(piece.to[0], axis, members);
    const auto [same, is_other] =
        shared_.shape_ids.try_emplace(shape, static_cast<int32_t>(p_.shapes.size()));
    if (is_other) p_.shapes.push_back(std::move(shape));
    made.shape = same->second;
    return made;
  }

  void EmitExchange(const SpmdPiece& piece) {
    if (piece.tied) return EmitTie(piece);
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

  // --- Other stages ----------------------------------------------------------------------------

  // Our parts of what goes between two stages.
  void EmitMessages(const SpmdPiece& piece) {
    const bool sends = piece.code == OpCode::kSend;
    const LaneParcels& lane = traffic_->parcels[static_cast<size_t>(piece.lane)];
    const auto& mine = sends ? lane.of_giver : lane.of_taker;
    const auto found = mine.find(device_);
    if (found == mine.end() && sends) return;
    BufferRef buffer = RefOf(sends ? piece.from[0] : piece.to[0]);
    if (found == mine.end()) return EmitNothing(piece, buffer);
    Instruction in;
    in.code = piece.code;
    in.tag = static_cast<int32_t>(piece.lane * traffic_->microbatches + piece.microbatch);
    for (const Parcel& parcel : found->second) {
      in.target = sends ? parcel.to : parcel.from;
      buffer.slice = tables_.AddSlice(buffer.tensor, parcel.part);
      tables_.Emit(device_, in, {buffer});
    }
  }

  // A part without elements does not travel; it is there.
  void EmitNothing(const SpmdPiece& piece, const BufferRef& buffer) {
    const auto [known, is_new] =
        nothing_.try_emplace({buffer.tensor, buffer.form, buffer.slice}, -1);
    if (is_new) {
      Segment segment;
      segment.name = fmt::format("{}Z.{}", prefix_, tensor(piece.to[0]).name);
      segment.time = Seconds{0};
      Port port;
      port.tensor = buffer.tensor;
      port.form = buffer.form;
      port.slice = buffer.slice;
      port.use = PortUse::kWrite;
      port.per_microbatch = buffer.microbatch.present();
      segment.ports.push_back(port);
      known->second = tables_.AddSegment(std::move(segment));
    }
    Instruction in;
    in.target = known->second;
    in.microbatch = Index::At(piece.microbatch);
    tables_.Emit(device_, in, {});
  }

  // The sum of a tied weight's gradient over the stages that hold it, part by part.
  void EmitTie(const SpmdPiece& piece) {
    std::vector<int32_t> members;
    for (const size_t stage : traffic_->lanes.HoldersOf(value(piece.from[0]).tensor)) {
      members.push_back(traffic_->first_devices[stage] + static_cast<int32_t>(local_));
    }
    Instruction in;
    in.code = OpCode::kCollective;
    in.kind = CollectiveKind::kAllReduce;
    in.algorithm = traffic_->all_reduce;
    in.target = tables_.AddGroup(members);
    tables_.Emit(device_, in, {RefOf(piece.from[0])});
  }

  const SpmdPlan& plan_;
  const Graph& g_;
  Program& p_;
  SharedTables& shared_;
  ProgramTables& tables_;
  ShardTable shards_;
  SpmdSchedule schedule_;
  std::string prefix_;  // of the names of segments
  int32_t first_;       // of the devices
  const Traffic* traffic_ = nullptr;
  std::vector<MeshPlace> places_;  // by device of the mesh
  size_t local_ = 0;               // at work
  int32_t device_ = 0;             // likewise, in the Program
  MeshPlace place_{};              //
  static constexpr int32_t kUnknown = -2;
  std::vector<int32_t> part_of_, forms_;            // by value
  std::vector<int32_t> parts_;                      // a value of each kind of parts
  std::vector<int32_t> slices_;                     // by kind of parts: this device's
  std::vector<int32_t> piece_kinds_, piece_steps_;  // by piece; of computes
  std::vector<std::vector<Compute>> computes_;      // by kind of piece and device
  std::vector<SegmentOp> ops_;                      // by step of the plan
  std::map<std::tuple<CollectiveKind, int, size_t, int32_t, int32_t>, Exchange> exchanges_;
  std::map<std::pair<size_t, std::vector<int32_t>>, Bytes> scratches_;  // by piece and lengths
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> nothing_;    // segments, by buffer
  // By steps, shards and ports.
  std::vector<std::map<std::pair<std::vector<int32_t>, std::vector<Port>>, int32_t>> segments_;
};

// All stages of a pipeline, or the one stage of an SPMD plan.
class BodiesLowering {
 public:
  BodiesLowering(const Plan& plan, const Graph& graph, const LowerOptions& options,
                 Program& program)
      : plan_(plan), g_(graph), options_(options), p_(program), shared_(graph, program) {}

  void RunAlone() {
    const auto microbatches = static_cast<int32_t>(plan_.microbatches);
    SpmdSchedule schedule =
        ScheduleOf(*plan_.spmd, g_, {plan_.bucket, options_.free_behind, microbatches});
    StageLowering(*plan_.spmd, std::move(schedule), "", g_, shared_, p_).Run(nullptr);
  }

  Status RunStages() {
    const PipelinePlan& pipeline = plan_.pipelines[0];
    const StageLanes lanes(pipeline, g_);
    constexpr int64_t kMostTags = 1 << 30;  // larger ones are for the runtime itself
    if (std::ssize(lanes.lanes()) * plan_.microbatches > kMostTags) {
      return BadInput("plan", "too many messages to tell them apart", "use fewer microbatches");
    }
    const WorkTimes times = TimesOf(pipeline, "plan").value();
    std::vector<StageLowering> stages;
    Traffic traffic{lanes, {}, plan_.microbatches, plan_.all_reduce, {}};
    for (size_t s = 0; s < pipeline.stages.size(); ++s) {
      const StageBody& body = *pipeline.stages[s].body;
      const StageFlow flow = lanes.FlowOf(s, times, options_.receive_ahead, options_.free_behind);
      const SpmdScheduleOptions made{plan_.bucket, options_.free_behind, 0};
      stages.emplace_back(body.program, ScheduleOf(body, flow, g_, made), fmt::format("s{}.", s),
                          g_, shared_, p_);
      traffic.first_devices.push_back(stages.back().first_device());
    }
    HEDDLE_RETURN_IF_ERROR(FindParcels(stages, traffic));
    AddChannels(pipeline, traffic);
    for (StageLowering& stage : stages) stage.Run(&traffic);
    OrderReceives(p_);
    return Ok();
  }

 private:
  Status FindParcels(std::vector<StageLowering>& stages, Traffic& traffic) const {
    traffic.parcels.resize(traffic.lanes.lanes().size());
    for (StageLowering& giver : stages) {
      for (const auto& [number, given] : giver.schedule().given) {
        const StageLane& lane = traffic.lanes.lanes()[static_cast<size_t>(number)];
        LaneParcels& made = traffic.parcels[static_cast<size_t>(number)];
        for (const Parcel& parcel :
             ParcelsBetween(giver.SideOf(lane.tensor, given),
                            stages[lane.taker].SideOf(lane.tensor, lane.wanted))) {
          made.of_giver[parcel.from].push_back(parcel);
          made.of_taker[parcel.to].push_back(parcel);
        }
        for (const auto& taker : made.of_taker) {
          if (IsRow(taker.second)) continue;
          return Infeasible(
              fmt::format("plan: pipelines[0].stages[{}]: arrives", lane.taker),
              fmt::format("{} would come to {} in parts beside each other along two axes; they "
                          "are joined along one",
                          g_.tensor(lane.tensor).name,
                          p_.devices[static_cast<size_t>(taker.first)].name),
              "let it arrive divided as it leaves along one of them, and convert it there");
        }
      }
    }
    return Ok();
  }

  // Do the parts differ along one axis at most?
  static bool IsRow(const std::vector<Parcel>& parcels) {
    size_t differ = 0;
    for (size_t axis = 0; axis < parcels[0].part.size(); ++axis) {
      differ += std::any_of(parcels.begin(), parcels.end(), [&](const Parcel& parcel) {
        return parcel.part[axis] != parcels[0].part[axis];
      });
    }
    return differ <= 1;
  }

  // One between every two stages that exchange messages.
  void AddChannels(const PipelinePlan& pipeline, const Traffic& traffic) const {
    std::set<std::pair<size_t, size_t>> pairs;
    for (const StageLane& lane : traffic.lanes.lanes())
      pairs.insert(std::minmax(lane.giver, lane.taker));
    const auto devices = [&](size_t stage) {
      std::vector<int32_t> numbers(pipeline.stages[stage].devices.size());
      std::iota(numbers.begin(), numbers.end(), traffic.first_devices[stage]);
      return numbers;
    };
    for (const auto& [a, b] : pairs) p_.channels.push_back({{devices(a), devices(b)}, false});
  }

  const Plan& plan_;
  const Graph& g_;
  const LowerOptions& options_;
  Program& p_;
  SharedTables shared_;
};

}  // namespace

Result<Program> LowerBodies(const Plan& plan, const Graph& graph, const LowerOptions& options,
                            Program program) {
  if (plan.spmd) {
    HEDDLE_RETURN_IF_ERROR(CheckSpmdPlan(*plan.spmd, graph, "plan: spmd"));
  } else {
    HEDDLE_RETURN_IF_ERROR(CheckBodies(plan, graph, "plan"));
  }
  program.layers = static_cast<int32_t>(graph.layers().size());
  const int64_t rows = graph.batch() / plan.microbatches;
  program.microbatch_rows.assign(static_cast<size_t>(plan.microbatches), rows);
  const auto lower = [&](const Graph& part) {
    BodiesLowering lowering(plan, part, options, program);
    if (!plan.spmd) return lowering.RunStages();
    lowering.RunAlone();
    return Ok();
  };
  HEDDLE_RETURN_IF_ERROR(plan.microbatches == 1 ? lower(graph)
                                                : lower(MicrobatchGraph(graph, rows)));
  return program;
}

}  // namespace heddle
