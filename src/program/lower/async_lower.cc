#include "program/lower/async_lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/lower/plan_layout.h"
#include "program/lower/segment_maker.h"
#include "program/lower/update_segments.h"

namespace heddle {
namespace {

// A forward or backward of one microbatch: number `at` in the prologue; in body and epilogue so
// many after the head and the repetitions before.
struct Piece {
  bool forward = true;
  Section section = Section::kBody;
  int64_t at = 0;
};

// Writes the lists of one device.
class AsyncDevice {
 public:
  AsyncDevice(const Plan& plan, const Graph& graph, const PlanLayout& layout, SegmentMaker& maker,
              const std::vector<int32_t>& updates, size_t stage, size_t member)
      : plan_(plan),
        g_(graph),
        layout_(layout),
        maker_(maker),
        updates_(updates),
        pipeline_(layout.pipelines[0]),
        chunk_(pipeline_.chunks[stage]),
        stage_(stage),
        member_(member),
        device_(pipeline_.devices[stage][member]),
        per_update_(plan.microbatches),
        head_(EndsOf(plan).head * per_update_),
        tail_(EndsOf(plan).tail * per_update_),
        warm_(std::ssize(pipeline_.devices) - 1 - static_cast<int64_t>(stage)) {}

  void Run() {
    const std::vector<Piece> prologue = Prologue(), body = Body(), epilogue = Epilogue();
    // What follows the prologue is the first body.
    std::vector<Piece> beginning = prologue;
    for (const Piece& piece : body) {
      beginning.push_back({piece.forward, Section::kPrologue, head_ + piece.at});
    }
    for (size_t k = 0; k < kAhead; ++k) EmitReceives(beginning[k], Section::kPrologue);
    for (size_t k = 0; k < prologue.size(); ++k) {
      EmitReceives(beginning[k + kAhead], Section::kPrologue);
      EmitPiece(prologue[k]);
    }
    for (size_t k = 0; k < body.size(); ++k) {
      Piece ahead = body[(k + kAhead) % body.size()];
      if (k + kAhead >= body.size()) ahead.at += per_update_;
      EmitReceives(ahead, Section::kBody);
      EmitPiece(body[k]);
    }
    for (size_t k = 0; k < epilogue.size(); ++k) {
      if (k + kAhead < epilogue.size()) EmitReceives(epilogue[k + kAhead], Section::kEpilogue);
      EmitPiece(epilogue[k]);
    }
    EmitEnd();
  }

 private:
  // Receives are posted this many pieces of work before their use: one repetition.
  static constexpr size_t kAhead = 2;

  std::vector<Piece> Prologue() const {
    std::vector<Piece> pieces;
    for (int64_t m = 0; m < warm_; ++m) pieces.push_back({true, Section::kPrologue, m});
    for (int64_t r = 0; r < head_; ++r) {
      pieces.push_back({true, Section::kPrologue, r + warm_});
      pieces.push_back({false, Section::kPrologue, r});
    }
    return pieces;
  }

  std::vector<Piece> Body() const {
    std::vector<Piece> pieces;
    for (int64_t r = 0; r < per_update_; ++r) {
      pieces.push_back({true, Section::kBody, r + warm_});
      pieces.push_back({false, Section::kBody, r});
    }
    return pieces;
  }

  std::vector<Piece> Epilogue() const {
    std::vector<Piece> pieces;
    for (int64_t r = 0; r < tail_; ++r) {
      if (r + warm_ < tail_) pieces.push_back({true, Section::kEpilogue, r + warm_});
      pieces.push_back({false, Section::kEpilogue, r});
    }
    return pieces;
  }

  Index Microbatch(const Piece& piece) const {
    if (piece.section == Section::kPrologue) return Index::At(static_cast<int32_t>(piece.at));
    return {static_cast<int32_t>(per_update_), static_cast<int32_t>(head_ + piece.at)};
  }

  // The update that the piece's microbatch belongs to, or one so much older; none is before the
  // first.
  Index UpdateOf(const Piece& piece, int64_t older) const {
    if (piece.section == Section::kPrologue) {
      return Index::At(static_cast<int32_t>(std::max<int64_t>(0, piece.at / per_update_ - older)));
    }
    return {1, static_cast<int32_t>((head_ + piece.at) / per_update_ - older)};
  }

  // How many updates older than its own the version is that a microbatch reads.
  int64_t Age() const {
    switch (plan_.async->versions) {
      case WeightVersions::kStash:
        return warm_;
      case WeightVersions::kVertical:
        return std::ssize(pipeline_.devices) - 1;
      case WeightVersions::kTwo:
        return 1;
      case WeightVersions::kNone:
        return 0;
    }
    return 0;
  }
  bool versioned() const { return plan_.async->versions != WeightVersions::kNone; }

  int64_t RowsOf(const Piece& piece) const {
    return layout_.microbatch_rows[static_cast<size_t>(piece.at % per_update_)];
  }
  Range MyRows(const Piece& piece) const {
    return pipeline_.rows[stage_].at(RowsOf(piece))[member_];
  }

  BufferRef BufferFor(const Piece& piece, TensorId tensor) {
    BufferRef ref = maker_.Plain(tensor);
    if (PerMicrobatch(g_.tensor(tensor))) ref.microbatch = Microbatch(piece);
    return ref;
  }

  void EmitReceives(const Piece& piece, Section section) {
    if (piece.forward && stage_ > 0) {
      EmitMessages(piece, OpCode::kRecv, stage_ - 1, chunk_.in, section);
    }
    if (!piece.forward && stage_ + 1 < pipeline_.chunks.size()) {
      EmitMessages(piece, OpCode::kRecv, stage_ + 1, chunk_.gradients_in, section);
    }
  }

  // Every overlap of our rows with a neighbour's is one message.
  void EmitMessages(const Piece& piece, OpCode code, size_t neighbour,
                    const std::vector<TensorId>& tensors, Section section) {
    const size_t boundary = std::min(stage_, neighbour);
    const Cut& cut =
        layout_.chain.cuts[static_cast<size_t>(pipeline_.chunks[boundary].layers.last)];
    const std::vector<TensorId>& crossing = piece.forward ? cut.forward : cut.backward;
    const std::vector<Range>& ranges = pipeline_.rows[neighbour].at(RowsOf(piece));
    const Range mine = MyRows(piece);
    for (const TensorId tensor : tensors) {
      const auto place = std::lower_bound(crossing.begin(), crossing.end(), tensor);
      // Messages of one lane come in the order of their microbatches.
      const size_t lane = (boundary * 2 + (piece.forward ? 0 : 1)) * layout_.most_crossing +
                          static_cast<size_t>(place - crossing.begin());
      for (size_t peer = 0; peer < ranges.size(); ++peer) {
        const Range common{std::max(mine.begin, ranges[peer].begin),
                           std::min(mine.end, ranges[peer].end)};
        if (common.size() <= 0) continue;
        Instruction in;
        in.code = code;
        in.target = pipeline_.devices[neighbour][peer];
        in.tag = static_cast<int32_t>(lane);
        BufferRef ref = BufferFor(piece, tensor);
        ref.slice = maker_.RowsSlice(tensor, common);
        maker_.tables().Emit(device_, in, {ref}, section);
      }
    }
  }

  void EmitPiece(const Piece& piece) {
    const WorkKind kind = piece.forward ? WorkKind::kForward : WorkKind::kBackward;
    for (const size_t s : chunk_.segments.Of(kind)) {
      Instruction in;
      in.target = maker_.SegmentFor({0, stage_, s, MyRows(piece)});
      in.microbatch = Microbatch(piece);
      if (versioned()) in.version = UpdateOf(piece, Age());
      in.accumulate =
          !piece.forward && piece.at % per_update_ != 0 && Adds(chunk_.segments.segments[s]);
      maker_.tables().Emit(device_, in, {}, piece.section);
    }
    if (piece.forward) {
      if (stage_ + 1 < pipeline_.chunks.size()) {
        EmitMessages(piece, OpCode::kSend, stage_ + 1, chunk_.out, piece.section);
      }
      return;
    }
    if (stage_ > 0) PassOn(piece);
    Free(piece, chunk_.segments.freed_after_backward, piece.section);
    if ((piece.at + 1) % per_update_ == 0) EmitUpdate(piece);
  }

  static bool Adds(const SegmentTemplate& segment) {
    return std::any_of(segment.ports.begin(), segment.ports.end(),
                       [](const TensorPort& port) { return port.use == PortUse::kAdd; });
  }

  // Gradients leave; those of the backward before have surely arrived.
  void PassOn(const Piece& piece) {
    EmitMessages(piece, OpCode::kSend, stage_ - 1, chunk_.gradients_out, piece.section);
    if (piece.section == Section::kPrologue && piece.at == 0) return;
    Free({false, piece.section, piece.at - 1}, chunk_.gradients_out, piece.section);
  }

  void Free(const Piece& piece, const std::vector<TensorId>& tensors, Section section) {
    for (const TensorId tensor : tensors) {
      maker_.tables().Emit(device_, OpCode::kFree, {BufferFor(piece, tensor)}, section);
    }
  }

  bool Holds(const GradientBucket& bucket) const {
    return std::binary_search(bucket.group.begin(), bucket.group.end(), device_);
  }

  // Sums over the replicas, then the update. The oldest version is not read again.
  void EmitUpdate(const Piece& piece) {
    for (const GradientBucket& bucket : layout_.buckets) {
      if (!Holds(bucket) || bucket.group.size() < 2) continue;
      Instruction in;
      in.code = OpCode::kCollective;
      in.kind = CollectiveKind::kAllReduce;
      in.algorithm = plan_.all_reduce;
      in.target = maker_.tables().AddGroup(bucket.group);
      std::vector<BufferRef> gradients;
      for (const int32_t p : bucket.parameters) {
        gradients.push_back(maker_.Plain(g_.parameters()[static_cast<size_t>(p)].gradient));
      }
      maker_.tables().Emit(device_, in, gradients, piece.section);
    }
    const bool read_by_update = Age() == 0;
    if (!read_by_update) FreeOldest(piece);
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      if (!Holds(layout_.buckets[b])) continue;
      Instruction in;
      in.target = updates_[b];
      in.microbatch = Microbatch(piece);  // tells which step it is
      if (versioned()) in.version = UpdateOf(piece, 0);
      maker_.tables().Emit(device_, in, {}, piece.section);
    }
    if (read_by_update) FreeOldest(piece);
  }

  void FreeOldest(const Piece& piece) {
    const bool none_yet = piece.section == Section::kPrologue && piece.at / per_update_ < Age();
    if (!versioned() || none_yet) return;
    FreeWeights(UpdateOf(piece, Age()), piece.section);
  }

  void FreeWeights(Index version, Section section) {
    for (const int32_t p : layout_.held[static_cast<size_t>(device_)]) {
      maker_.tables().Emit(device_, OpCode::kFree, {Weight(p, version)}, section);
    }
  }

  BufferRef Weight(int32_t parameter, Index version) {
    BufferRef ref = maker_.Plain(g_.parameters()[static_cast<size_t>(parameter)].tensor);
    ref.version = version;
    return ref;
  }

  void EmitEnd() {
    const Section section = Section::kEpilogue;
    if (stage_ > 0) Free({false, section, tail_ - 1}, chunk_.gradients_out, section);
    if (!versioned()) return;
    const auto newest = static_cast<int32_t>((head_ + tail_) / per_update_);
    for (int64_t older = Age(); older > 0; --older) {
      FreeWeights({1, newest - static_cast<int32_t>(older)}, section);
    }
    for (const int32_t p : layout_.held[static_cast<size_t>(device_)]) {
      maker_.tables().Emit(device_, OpCode::kAlias,
                           {Weight(p, Index::At(0)), Weight(p, {1, newest})}, section);
    }
    FreeWeights({1, newest}, section);
  }

  const Plan& plan_;
  const Graph& g_;
  const PlanLayout& layout_;
  SegmentMaker& maker_;
  const std::vector<int32_t>& updates_;
  const PipelineLayout& pipeline_;
  const Chunk& chunk_;
  size_t stage_, member_;
  int32_t device_;
  int64_t per_update_;   // microbatches
  int64_t head_, tail_;  // repetitions in prologue and epilogue
  int64_t warm_;         // forwards ahead of backwards
};

}  // namespace

namespace {

UpdateRule RuleOf(WeightVersions versions) {
  switch (versions) {
    case WeightVersions::kStash:
      return UpdateRule::kStash;
    case WeightVersions::kVertical:
      return UpdateRule::kVertical;
    case WeightVersions::kTwo:
      return UpdateRule::kTwo;
    case WeightVersions::kNone:
      return UpdateRule::kNone;
  }
  return UpdateRule::kUnstated;
}

}  // namespace

AsyncEnds EndsOf(const Plan& plan) {
  const int64_t stages = std::ssize(plan.pipelines[0].stages), m = plan.microbatches;
  if (plan.async->versions != WeightVersions::kTwo) return {stages - 1, stages};
  // The first batch has no older version.
  return {std::max<int64_t>(1, (stages - 1 + m - 1) / m), (stages + m - 1) / m};
}

Result<Program> LowerAsync(const Plan& plan, const Graph& graph, Program program) {
  const PlanLayout layout = LayOut(plan, graph);
  HEDDLE_RETURN_IF_ERROR(CheckNotShared(plan, graph, layout));
  const bool versioned = plan.async->versions != WeightVersions::kNone;
  program.rule = RuleOf(plan.async->versions);
  program.layers = layout.chain.size();
  program.microbatch_rows = layout.microbatch_rows;
  SegmentMaker maker(graph, layout, program);
  if (versioned) maker.VersionWeights();
  for (size_t d = 0; d < layout.device_names.size(); ++d) {
    DeviceProgram& device = program.devices.emplace_back();
    device.name = layout.device_names[d];
    for (const int32_t p : layout.held[d]) {
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
      BufferRef weight = maker.Plain(parameter.tensor);
      if (versioned) weight.version = Index::At(0);
      device.holds.push_back(weight);
      for (const TensorId state : parameter.states) device.holds.push_back(maker.Plain(state));
    }
  }
  const std::vector<int32_t> updates = AddUpdates(graph, layout, maker);
  const PipelineLayout& pipeline = layout.pipelines[0];
  AddChannels(pipeline, program);
  for (size_t s = 0; s < pipeline.devices.size(); ++s) {
    for (size_t j = 0; j < pipeline.devices[s].size(); ++j) {
      AsyncDevice(plan, graph, layout, maker, updates, s, j).Run();
    }
  }
  return program;
}

}  // namespace heddle
