#include "program/lower/local_lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "program/lower/plan_layout.h"
#include "program/lower/segment_maker.h"
#include "program/lower/update_segments.h"

namespace heddle {
namespace {

// What all devices share.
struct LocalRound {
  const Plan& plan;
  const Graph& graph;
  const PlanLayout& layout;
  SegmentMaker& maker;
  std::vector<LocalUpdate> turns;
  std::vector<int32_t> updates;                               // segments, by bucket
  std::map<std::pair<size_t, int64_t>, int32_t> scales = {};  // by bucket and local updates

  int64_t StepsOf(int32_t replica) const { return plan.local->steps[static_cast<size_t>(replica)]; }
  double ShareOf(int32_t replica) const {
    return static_cast<double>(StepsOf(replica)) / static_cast<double>(plan.local->updates());
  }

  // What is averaged of a bucket: its weights, and what the optimizer keeps of them.
  std::vector<TensorId> AveragedOf(size_t bucket) const {
    std::vector<TensorId> tensors;
    for (const int32_t p : layout.buckets[bucket].parameters) {
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
      tensors.push_back(parameter.tensor);
      tensors.insert(tensors.end(), parameter.states.begin(), parameter.states.end());
    }
    return tensors;
  }
};

// Writes the list of one device.
class LocalDevice {
 public:
  LocalDevice(LocalRound& round, int32_t device)
      : r_(round),
        layout_(round.layout),
        maker_(round.maker),
        tables_(round.maker.tables()),
        device_(device) {}

 protected:
  bool Holds(size_t bucket) const {
    const std::vector<int32_t>& group = layout_.buckets[bucket].group;
    return std::binary_search(group.begin(), group.end(), device_);
  }

  // The segments of a forward or backward. `first` of those whose gradients an update adds up.
  void EmitWork(const Chunk& chunk, size_t number, WorkKind kind, int64_t microbatch,
                int32_t replica, bool first) {
    const int64_t rows =
        layout_
            .microbatch_rows[static_cast<size_t>(microbatch % std::ssize(layout_.microbatch_rows))];
    for (const size_t s : chunk.segments.Of(kind)) {
      const std::vector<TensorPort>& ports = chunk.segments.segments[s].ports;
      Instruction in;
      in.target = maker_.SegmentFor({0, number, s, {0, rows}});
      in.microbatch = Index::At(static_cast<int32_t>(microbatch));
      in.replica = replica;
      in.accumulate = !first && std::any_of(ports.begin(), ports.end(), [](const TensorPort& port) {
        return port.use == PortUse::kAdd;
      });
      tables_.Emit(device_, in, {});
    }
  }

  void Free(const std::vector<TensorId>& tensors, int64_t microbatch) {
    for (const TensorId tensor : tensors) {
      tables_.Emit(device_, OpCode::kFree, {BufferFor(tensor, microbatch)});
    }
  }

  BufferRef BufferFor(TensorId tensor, int64_t microbatch) {
    BufferRef ref = maker_.Plain(tensor);
    if (PerMicrobatch(r_.graph.tensor(tensor))) {
      ref.microbatch = Index::At(static_cast<int32_t>(microbatch));
    }
    return ref;
  }

  void EmitUpdate(const LocalUpdate& update, int64_t microbatch, int32_t replica) {
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      if (!Holds(b)) continue;
      Instruction in;
      in.target = r_.updates[b];
      in.microbatch = Index::At(static_cast<int32_t>(microbatch));
      in.replica = replica;
      in.version = {static_cast<int32_t>(r_.StepsOf(update.replica)), update.step};
      tables_.Emit(device_, in, {});
    }
  }

  // A segment that moves the bucket's tensors, multiplied.
  Segment Mover(std::string name, double scale) const {
    Segment mover;
    mover.name = std::move(name);
    mover.phase = SegmentPhase::kOther;
    mover.scale = scale;
    return mover;
  }
  // What it changes is there twice for a moment.
  void AddChanged(Segment& mover, TensorId tensor) {
    maker_.AddPort(mover, tensor, PortUse::kChange);
    mover.scratch = std::max(mover.scratch, r_.graph.tensor(tensor).bytes());
  }

  LocalRound& r_;
  const PlanLayout& layout_;
  SegmentMaker& maker_;
  ProgramTables& tables_;
  int32_t device_;
};

// A whole replica.
class WholeReplica : private LocalDevice {
 public:
  WholeReplica(LocalRound& round, int32_t replica)
      : LocalDevice(round, round.layout.pipelines[static_cast<size_t>(replica)].devices[0][0]),
        replica_(replica) {}

  void Run() {
    const Chunk& chunk = layout_.pipelines[0].chunks[0];
    const int64_t per_update = r_.plan.microbatches;
    for (size_t turn = 0; turn < r_.turns.size(); ++turn) {
      if (r_.turns[turn].replica != replica_) continue;
      const int64_t first = static_cast<int64_t>(turn) * per_update;
      for (int64_t m = first; m < first + per_update; ++m) {
        EmitWork(chunk, 0, WorkKind::kForward, m, -1, m == first);
        EmitWork(chunk, 0, WorkKind::kBackward, m, -1, m == first);
        Free(chunk.segments.freed_after_backward, m);
      }
      EmitUpdate(r_.turns[turn], first, -1);
    }
    for (size_t b = 0; b < layout_.buckets.size(); ++b) EmitAverage(b);
  }

 private:
  // Times its share; the sum over all is the average.
  void EmitAverage(size_t bucket) {
    const std::vector<TensorId> tensors = r_.AveragedOf(bucket);
    std::vector<BufferRef> buffers;
    for (const TensorId tensor : tensors) buffers.push_back(maker_.Plain(tensor));
    const auto [scale, is_new] = r_.scales.try_emplace({bucket, r_.StepsOf(replica_)}, -1);
    if (is_new) {
      Segment mover =
          Mover(fmt::format("A{}.{}", bucket, r_.StepsOf(replica_)), r_.ShareOf(replica_));
      for (const TensorId tensor : tensors) {
        maker_.AddPort(mover, tensor, PortUse::kRead);
        AddChanged(mover, tensor);
      }
      scale->second = tables_.AddSegment(std::move(mover));
    }
    Instruction in;
    in.target = scale->second;
    tables_.Emit(device_, in, {});
    if (layout_.buckets[bucket].group.size() < 2) return;
    Instruction sum;
    sum.code = OpCode::kCollective;
    sum.kind = CollectiveKind::kAllReduce;
    sum.algorithm = r_.plan.all_reduce;
    sum.target = tables_.AddGroup(layout_.buckets[bucket].group);
    tables_.Emit(device_, sum, buffers);
  }

  int32_t replica_;
};

// A stage of the pipeline that all replicas share.
class SharedStage : private LocalDevice {
 public:
  SharedStage(LocalRound& round, size_t stage)
      : LocalDevice(round, round.layout.pipelines[0].devices[stage][0]),
        pipeline_(round.layout.pipelines[0]),
        stage_(stage),
        chunk_(pipeline_.chunks[stage]) {}

  void Run() {
    const std::vector<Piece> pieces = Pieces();
    for (size_t k = 0; k < std::min(kAhead, pieces.size()); ++k) EmitReceives(pieces[k]);
    for (size_t k = 0; k < pieces.size(); ++k) {
      if (k + kAhead < pieces.size()) EmitReceives(pieces[k + kAhead]);
      EmitPiece(pieces[k]);
    }
    if (stage_ > 0) Free(chunk_.gradients_out, std::ssize(r_.turns) - 1);
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      if (Holds(b)) EmitAverage(b);
    }
  }

 private:
  // Receives are posted this many pieces of work before their use.
  static constexpr size_t kAhead = 2;

  struct Piece {
    bool forward;
    int64_t microbatch;  // and update
  };

  // One forward, one backward; later stages run fewer forwards ahead, and none runs ahead of the
  // update that its replica makes before.
  std::vector<Piece> Pieces() const {
    const int64_t count = std::ssize(r_.turns), replicas = std::ssize(r_.plan.local->steps);
    const int64_t ahead =
        std::min(replicas - 1, std::ssize(pipeline_.devices) - 1 - static_cast<int64_t>(stage_));
    std::vector<Piece> pieces;
    for (int64_t m = 0; m < ahead; ++m) pieces.push_back({true, m});
    for (int64_t m = 0; m < count; ++m) {
      if (m + ahead < count) pieces.push_back({true, m + ahead});
      pieces.push_back({false, m});
    }
    return pieces;
  }

  void EmitReceives(const Piece& piece) {
    if (piece.forward && stage_ > 0) {
      EmitMessages(piece, OpCode::kRecv, stage_ - 1, chunk_.in);
    }
    if (!piece.forward && stage_ + 1 < pipeline_.chunks.size()) {
      EmitMessages(piece, OpCode::kRecv, stage_ + 1, chunk_.gradients_in);
    }
  }

  void EmitMessages(const Piece& piece, OpCode code, size_t neighbour,
                    const std::vector<TensorId>& tensors) {
    const size_t boundary = std::min(stage_, neighbour);
    const Cut& cut =
        layout_.chain.cuts[static_cast<size_t>(pipeline_.chunks[boundary].layers.last)];
    const std::vector<TensorId>& crossing = piece.forward ? cut.forward : cut.backward;
    for (const TensorId tensor : tensors) {
      const auto place = std::lower_bound(crossing.begin(), crossing.end(), tensor);
      Instruction in;
      in.code = code;
      in.target = pipeline_.devices[neighbour][0];
      // Messages of one lane come in the order of their microbatches.
      in.tag =
          static_cast<int32_t>((boundary * 2 + (piece.forward ? 0 : 1)) * layout_.most_crossing +
                               static_cast<size_t>(place - crossing.begin()));
      tables_.Emit(device_, in, {BufferFor(tensor, piece.microbatch)});
    }
  }

  void EmitPiece(const Piece& piece) {
    const int64_t m = piece.microbatch;
    const LocalUpdate& update = r_.turns[static_cast<size_t>(m)];
    const WorkKind kind = piece.forward ? WorkKind::kForward : WorkKind::kBackward;
    EmitWork(chunk_, stage_, kind, m, update.replica, true);
    if (piece.forward) {
      if (stage_ + 1 < pipeline_.chunks.size()) {
        EmitMessages(piece, OpCode::kSend, stage_ + 1, chunk_.out);
      }
      return;
    }
    if (stage_ > 0) {
      EmitMessages(piece, OpCode::kSend, stage_ - 1, chunk_.gradients_out);
      if (m > 0) Free(chunk_.gradients_out, m - 1);  // have surely arrived
    }
    Free(chunk_.segments.freed_after_backward, m);
    EmitUpdate(update, m, update.replica);
  }

  // The replicas' weights are added up here, each times its share, and every replica gets the sum.
  void EmitAverage(size_t bucket) {
    const auto replicas = static_cast<int32_t>(r_.plan.local->steps.size());
    const int32_t form = tables_.AddForm("mean");
    Segment add = Mover(fmt::format("A{}", bucket), r_.ShareOf(0));
    Segment give = Mover(fmt::format("G{}", bucket), 1);
    const std::vector<TensorId> tensors = r_.AveragedOf(bucket);
    for (const TensorId tensor : tensors) {
      maker_.AddPort(add, tensor, PortUse::kRead);
      AddMean(add, tensor, PortUse::kAdd, form);
      AddMean(give, tensor, PortUse::kRead, form);
      AddChanged(give, tensor);
    }
    Instruction in;
    in.target = tables_.AddSegment(std::move(add));
    for (in.replica = 0; in.replica < replicas; ++in.replica) {
      in.accumulate = in.replica > 0;
      tables_.Emit(device_, in, {});
    }
    in.accumulate = false;
    in.target = tables_.AddSegment(std::move(give));
    for (in.replica = 0; in.replica < replicas; ++in.replica) tables_.Emit(device_, in, {});
    for (const TensorId tensor : tensors) {
      BufferRef mean = maker_.Plain(tensor);
      mean.form = form;
      tables_.Emit(device_, OpCode::kFree, {mean});
    }
  }

  void AddMean(Segment& segment, TensorId tensor, PortUse use, int32_t form) {
    maker_.AddPort(segment, tensor, use);
    segment.ports.back().per_replica = false;
    segment.ports.back().form = form;
  }

  const PipelineLayout& pipeline_;
  size_t stage_;
  const Chunk& chunk_;
};

// Each device holds its weights and their states, once for each of `replicas`; -1 stands for one
// without a number.
void AddDevices(const Graph& graph, const PlanLayout& layout, const std::vector<int32_t>& replicas,
                SegmentMaker& maker, Program& program) {
  for (size_t d = 0; d < layout.device_names.size(); ++d) {
    DeviceProgram& device = program.devices.emplace_back();
    device.name = layout.device_names[d];
    for (const int32_t replica : replicas) {
      for (const int32_t p : layout.held[d]) {
        const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
        std::vector<TensorId> tensors = {parameter.tensor};
        tensors.insert(tensors.end(), parameter.states.begin(), parameter.states.end());
        for (const TensorId tensor : tensors) {
          device.holds.push_back(maker.Plain(tensor));
          device.holds.back().replica = replica;
        }
      }
    }
  }
}

}  // namespace

Result<Program> LowerLocal(const Plan& plan, const Graph& graph, Program program) {
  const PlanLayout layout = LayOut(plan, graph);
  const bool whole = plan.local->HasWholeReplicas(plan.pipelines);
  if (!whole) HEDDLE_RETURN_IF_ERROR(CheckNotShared(plan, graph, layout));
  const int64_t updates = plan.local->updates();
  const auto count = static_cast<int32_t>(plan.local->steps.size());
  program.layers = layout.chain.size();
  program.rule = UpdateRule::kLocal;
  program.local_steps = plan.local->steps;
  program.updates = static_cast<int32_t>(updates / count);
  for (int64_t u = 0; u < updates; ++u) {
    program.microbatch_rows.insert(program.microbatch_rows.end(), layout.microbatch_rows.begin(),
                                   layout.microbatch_rows.end());
  }
  SegmentMaker maker(graph, layout, program);
  std::vector<int32_t> replicas = {-1};
  if (!whole) {
    maker.ReplicateWeights();
    replicas.clear();
    for (int32_t r = 0; r < count; ++r) replicas.push_back(r);
  }
  AddDevices(graph, layout, replicas, maker, program);
  LocalRound round{
      plan, graph, layout, maker, UpdatesInTurn(*plan.local), AddUpdates(graph, layout, maker)};
  if (whole) {
    for (int32_t r = 0; r < count; ++r) WholeReplica(round, r).Run();
    return program;
  }
  AddChannels(layout.pipelines[0], program);
  for (size_t s = 0; s < layout.pipelines[0].devices.size(); ++s) SharedStage(round, s).Run();
  return program;
}

}  // namespace heddle
