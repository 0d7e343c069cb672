#include "program/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "program/lower/async_lower.h"
#include "program/lower/local_lower.h"
#include "program/lower/plan_layout.h"
#include "program/lower/post_order.h"
#include "program/lower/segment_maker.h"
#include "program/lower/server_sync.h"
#include "program/lower/spmd_lower.h"
#include "program/lower/update_segments.h"

namespace heddle {
namespace {

// One piece of work of one device.
struct Work {
  WorkItem item;
  size_t chunk;  // along the layers
  Range rows;    // of the microbatch, on this device
  int64_t microbatch_rows;
  int32_t start;  // work_times.h
};

bool StartsBackward(WorkKind kind) {
  return kind == WorkKind::kBackward || kind == WorkKind::kInput;
}

// Writes the list of one device.
class DeviceLowering {
 public:
  DeviceLowering(const Plan& plan, const Graph& graph, const LowerOptions& options,
                 const PlanLayout& layout, SegmentMaker& maker, ServerSync* servers, size_t p,
                 size_t stage, size_t member)
      : plan_(plan),
        g_(graph),
        options_(options),
        layout_(layout),
        maker_(maker),
        servers_(servers),
        p_(p),
        stage_(stage),
        pipeline_(layout.pipelines[p]),
        device_(pipeline_.devices[stage][member]) {
    const WorkOrder& order = pipeline_.plan->stages[stage].order;
    for (size_t k = 0; k < order.size(); ++k) {
      const WorkItem& item = order[k];
      split_ = split_ || item.kind == WorkKind::kWeight;
      const int64_t rows = layout.microbatch_rows[static_cast<size_t>(item.microbatch)];
      const Range mine = pipeline_.rows[stage].at(rows)[member];
      if (mine.size() == 0) continue;
      work_.push_back({item, pipeline_.chunks_of[stage][static_cast<size_t>(item.chunk)], mine,
                       rows, pipeline_.times.starts()[stage][k]});
    }
    FindBuckets();
    if (split_) FindLastUses();
  }

  void Run(const std::vector<int32_t>& updates) {
    size_t next_receive = 0;
    for (size_t k = 0; k < work_.size(); ++k) {
      const auto ahead = static_cast<size_t>(options_.receive_ahead);
      while (next_receive < std::min(k + ahead + 1, work_.size())) {
        EmitReceives(work_[next_receive++]);
      }
      EmitWork(work_[k], k);
      FreeAfter(k);
    }
    if (work_.empty()) EmitZeros();
    EmitReductions();
    if (g_.clip_norm().valid()) EmitNorm();
    EmitUpdates(updates);
    if (g_.clip_norm().valid()) {
      maker_.tables().Emit(device_, OpCode::kFree, {maker_.Plain(g_.clip_norm())});
    }
    for (const Leaving& leaving : leaving_) {
      maker_.tables().Emit(device_, OpCode::kFree, {leaving.buffer});
    }
  }

 private:
  bool IsServed(size_t bucket) const { return servers_ != nullptr && servers_->IsShared(bucket); }

  void EmitUpdates(const std::vector<int32_t>& updates) {
    for (size_t b = 0; b < left_.size(); ++b) {
      if (left_[b] < 0) continue;
      if (IsServed(b)) {
        if (servers_->OwnerOf(b) == device_) servers_->EmitUpdate(b, updates[b]);
        continue;
      }
      Instruction in;
      in.target = updates[b];
      maker_.tables().Emit(device_, in, {});
    }
    // Last: these wait for the others.
    for (size_t b = 0; b < left_.size(); ++b) {
      const bool pulls = left_[b] >= 0 && IsServed(b) && servers_->OwnerOf(b) != device_;
      if (pulls) servers_->EmitPull(device_, b);
    }
  }

  // A buffer that is freed once it is neither used here nor needed by the device it was sent to.
  struct Leaving {
    BufferRef buffer;
    size_t after = 0;   // place of the work that uses it last, or a little later when it is sent
    int32_t taken = 0;  // when the receiver uses it (work_times.h)
  };
  using Key = std::tuple<TensorId, int32_t, int32_t>;  // tensor, form, microbatch

  int32_t FormOf(size_t chunk, TensorId tensor) const {
    const auto& own = pipeline_.chunks[chunk].own_form;
    const auto found = own.find(tensor);
    return found == own.end() ? -1 : found->second;
  }

  Key KeyOf(const Work& work, TensorId tensor) const {
    return {tensor, FormOf(work.chunk, tensor), work.item.microbatch};
  }

  // What a piece of work reads or writes, or must still hold for its neighbours, of the tensors
  // that do not leave by themselves: shared by chunks, or sent on.
  std::vector<TensorId> FindUsed(size_t k, WorkKind kind) const {
    const Chunk& chunk = pipeline_.chunks[k];
    std::set<TensorId> used;
    for (const size_t s : chunk.segments.Of(kind)) {
      for (const TensorPort& port : chunk.segments.segments[s].ports) used.insert(port.tensor);
    }
    if (kind == WorkKind::kForward) used.insert(chunk.in.begin(), chunk.in.end());
    if (kind != WorkKind::kWeight) used.insert(chunk.out.begin(), chunk.out.end());
    if (StartsBackward(kind)) {
      used.insert(chunk.gradients_in.begin(), chunk.gradients_in.end());
      used.insert(chunk.gradients_out.begin(), chunk.gradients_out.end());
    }
    std::vector<TensorId> kept;
    for (const TensorId tensor : used) {
      if (shared_.contains({tensor, FormOf(k, tensor)}) || passed_on_.contains(tensor)) {
        kept.push_back(tensor);
      }
    }
    return kept;
  }

  const std::vector<TensorId>& UsedBy(const Work& work) {
    const auto [found, is_new] = used_.try_emplace({work.chunk, work.item.kind});
    if (is_new) found->second = FindUsed(work.chunk, work.item.kind);
    return found->second;
  }

  void FindLastUses() {
    for (const size_t k : pipeline_.chunks_of[stage_]) {
      const Chunk& chunk = pipeline_.chunks[k];
      for (const TensorId tensor : chunk.segments.freed_by_order) {
        shared_.emplace(tensor, FormOf(k, tensor));
      }
      passed_on_.insert(chunk.gradients_out.begin(), chunk.gradients_out.end());
    }
    for (size_t k = 0; k < work_.size(); ++k) {
      for (const TensorId tensor : UsedBy(work_[k])) last_use_[KeyOf(work_[k], tensor)] = k;
    }
  }

  size_t LastUse(const Work& work, TensorId tensor, size_t position) const {
    const auto found = last_use_.find(KeyOf(work, tensor));
    return found == last_use_.end() ? position : found->second;
  }

  void FreeAfter(size_t k) {
    if (!shared_.empty()) FreeShared(k);
    std::vector<Leaving> still;
    for (Leaving& leaving : leaving_) {
      if (leaving.after > k || leaving.taken > work_[k].start) {
        still.push_back(leaving);
      } else {
        maker_.tables().Emit(device_, OpCode::kFree, {leaving.buffer});
      }
    }
    leaving_ = std::move(still);
  }

  // What chunks of this stage share and nobody was sent leaves after its last use.
  void FreeShared(size_t k) {
    for (const TensorId tensor : UsedBy(work_[k])) {
      const Key key = KeyOf(work_[k], tensor);
      if (!shared_.contains({tensor, FormOf(work_[k].chunk, tensor)})) continue;
      if (sent_.contains(key) || last_use_.at(key) != k) continue;
      leaving_.push_back({BufferFor(work_[k], tensor), k, 0});
    }
  }

  // Buckets held here, and how many segments of our work add to each.
  void FindBuckets() {
    left_.assign(layout_.buckets.size(), -1);
    std::map<TensorId, size_t> bucket_of;
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      const GradientBucket& bucket = layout_.buckets[b];
      if (!std::binary_search(bucket.group.begin(), bucket.group.end(), device_)) continue;
      left_[b] = 0;
      if (bucket.group.size() > 1) unreduced_.push_back(b);
      for (const int32_t p : bucket.parameters) {
        bucket_of[g_.parameters()[static_cast<size_t>(p)].gradient] = b;
      }
    }
    for (const size_t k : pipeline_.chunks_of[stage_]) {
      const auto& segments = pipeline_.chunks[k].segments.segments;
      for (size_t s = 0; s < segments.size(); ++s) {
        std::set<size_t> touched;
        for (const TensorPort& port : segments[s].ports) {
          const bool adds = port.use == PortUse::kAdd || port.use == PortUse::kAccumulate;
          if (adds) touched.insert(bucket_of.at(port.tensor));
        }
        touched_[{k, s}].assign(touched.begin(), touched.end());
      }
    }
    for (const Work& work : work_) {
      for (const size_t s : pipeline_.chunks[work.chunk].segments.Of(work.item.kind)) {
        for (const size_t b : touched_[{work.chunk, s}]) ++left_[b];
      }
    }
  }

  // Every overlap of our rows with a neighbour's is one message.
  void EmitMessages(const Work& work, OpCode code, size_t neighbour,
                    const std::vector<TensorId>& tensors, bool backward) {
    if (pipeline_.Local(work.chunk, neighbour)) return;  // the buffer is there already
    const size_t boundary = std::min(work.chunk, neighbour);
    const Cut& cut =
        layout_.chain.cuts[static_cast<size_t>(pipeline_.chunks[boundary].layers.last)];
    const std::vector<TensorId>& crossing = backward ? cut.backward : cut.forward;
    const size_t other = pipeline_.chunks[neighbour].stage;
    const std::vector<Range>& ranges = pipeline_.rows[other].at(work.microbatch_rows);
    for (const TensorId tensor : tensors) {
      const auto place = std::lower_bound(crossing.begin(), crossing.end(), tensor);
      // Distinct for every boundary, direction, tensor and microbatch: order cannot matter.
      const auto lane =
          static_cast<int64_t>((boundary * 2 + (backward ? 1 : 0)) * layout_.most_crossing +
                               static_cast<size_t>(place - crossing.begin()));
      for (size_t peer = 0; peer < ranges.size(); ++peer) {
        const Range common{std::max(work.rows.begin, ranges[peer].begin),
                           std::min(work.rows.end, ranges[peer].end)};
        if (common.size() <= 0) continue;
        Instruction in;
        in.code = code;
        in.target = pipeline_.devices[other][peer];
        in.tag = static_cast<int32_t>(lane * plan_.microbatches + work.item.microbatch);
        BufferRef ref = BufferFor(work, tensor);
        ref.slice = maker_.RowsSlice(tensor, common);
        maker_.tables().Emit(device_, in, {ref});
      }
    }
  }

  // The buffer of a tensor for a piece of work, without its slice.
  BufferRef BufferFor(const Work& work, TensorId tensor) {
    BufferRef ref = maker_.Plain(tensor);
    ref.form = maker_.FormOf(pipeline_.chunks[work.chunk], tensor);
    if (PerMicrobatch(g_.tensor(tensor))) ref.microbatch = Index::At(work.item.microbatch);
    return ref;
  }

  void EmitReceives(const Work& work) {
    const Chunk& chunk = pipeline_.chunks[work.chunk];
    if (work.item.kind == WorkKind::kForward && work.chunk > 0) {
      EmitMessages(work, OpCode::kRecv, work.chunk - 1, chunk.in, false);
    }
    if (StartsBackward(work.item.kind) && work.chunk + 1 < pipeline_.chunks.size()) {
      EmitMessages(work, OpCode::kRecv, work.chunk + 1, chunk.gradients_in, true);
    }
  }

  void EmitWork(const Work& work, size_t position) {
    const Chunk& chunk = pipeline_.chunks[work.chunk];
    std::set<TensorId> written;  // boundary gradients, already sent
    for (const size_t s : chunk.segments.Of(work.item.kind)) {
      const SegmentTemplate& segment = chunk.segments.segments[s];
      EmitFirstZeros(segment);
      Instruction in;
      in.target = maker_.SegmentFor({p_, work.chunk, s, work.rows});
      in.microbatch = Index::At(work.item.microbatch);
      in.accumulate = Accumulates(segment, work.chunk, s);
      maker_.tables().Emit(device_, in, {});
      if (!segment.gradients_out.empty()) {
        EmitMessages(work, OpCode::kSend, work.chunk - 1, segment.gradients_out, true);
        written.insert(segment.gradients_out.begin(), segment.gradients_out.end());
      }
      bool complete = false;
      for (const size_t b : touched_[{work.chunk, s}]) complete |= --left_[b] == 0;
      if (complete) EmitReductions();
    }
    if (work.item.kind == WorkKind::kForward && work.chunk + 1 < pipeline_.chunks.size()) {
      EmitMessages(work, OpCode::kSend, work.chunk + 1, chunk.out, false);
    }
    if (!StartsBackward(work.item.kind)) return;
    if (work.chunk > 0 && !pipeline_.Local(work.chunk, work.chunk - 1)) {
      PassOn(work, chunk, written, position);
    }
    for (const TensorId tensor : chunk.segments.freed_after_backward) {
      maker_.tables().Emit(device_, OpCode::kFree, {BufferFor(work, tensor)});
    }
  }

  // `acc` once the segment's add ports exist.
  bool Accumulates(const SegmentTemplate& segment, size_t chunk, size_t s) {
    const bool adds = std::any_of(segment.ports.begin(), segment.ports.end(),
                                  [](const TensorPort& p) { return p.use == PortUse::kAdd; });
    return adds && !started_.insert({chunk, s}).second;
  }

  // After a backward: sends the gradients that only pass through, and remembers to free all that
  // were sent, once the chunk before has surely asked for them.
  void PassOn(const Work& work, const Chunk& chunk, const std::set<TensorId>& written,
              size_t position) {
    for (const TensorId tensor : chunk.gradients_out) {
      if (!written.contains(tensor)) {
        EmitMessages(work, OpCode::kSend, work.chunk - 1, {tensor}, true);
      }
      const size_t behind = position + static_cast<size_t>(options_.free_behind);
      leaving_.push_back({BufferFor(work, tensor),
                          std::max(behind, LastUse(work, tensor, position)),
                          pipeline_.times.BackwardStart(work.chunk - 1, work.item.microbatch)});
      if (split_) sent_.insert(KeyOf(work, tensor));
    }
  }

  // Sums every bucket whose gradients are complete here, in the same order on all its devices.
  void EmitReductions() {
    std::set<int32_t> blocked;  // groups with an earlier bucket that is not complete
    std::vector<size_t> still;
    for (const size_t b : unreduced_) {
      const GradientBucket& bucket = layout_.buckets[b];
      if (left_[b] > 0 || blocked.contains(bucket.group_id)) {
        blocked.insert(bucket.group_id);
        still.push_back(b);
        continue;
      }
      if (servers_ != nullptr) {
        servers_->EmitPush(device_, b);
        continue;
      }
      Instruction in;
      in.code = OpCode::kCollective;
      in.kind = CollectiveKind::kAllReduce;
      in.algorithm = plan_.all_reduce;
      in.half = plan_.request.compress;
      in.target = maker_.tables().AddGroup(bucket.group);
      std::vector<BufferRef> gradients;
      for (const int32_t p : bucket.parameters) {
        gradients.push_back(maker_.Plain(g_.parameters()[static_cast<size_t>(p)].gradient));
      }
      maker_.tables().Emit(device_, in, gradients);
    }
    unreduced_ = std::move(still);
  }

  // The squared norm of all gradients, on every device. Of several devices that hold a gradient,
  // the first adds it.
  void EmitNorm() {
    Segment square;
    square.name = fmt::format("N{}", device_);
    square.phase = SegmentPhase::kOther;
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      if (layout_.buckets[b].group.front() != device_) continue;
      for (const int32_t p : layout_.buckets[b].parameters) {
        const Parameter& parameter = g_.parameters()[static_cast<size_t>(p)];
        square.ops.push_back(maker_.OpOf(parameter.square));
        maker_.AddPort(square, parameter.gradient, PortUse::kRead);
      }
    }
    if (square.ops.empty()) square.time = Seconds{0};
    maker_.AddPort(square, g_.clip_norm(), PortUse::kWrite);
    Instruction in;
    in.target = maker_.tables().AddSegment(std::move(square));
    maker_.tables().Emit(device_, in, {});
    if (layout_.device_names.size() < 2) return;
    Instruction sum;
    sum.code = OpCode::kCollective;
    sum.kind = CollectiveKind::kAllReduce;
    sum.algorithm = plan_.all_reduce;
    std::vector<int32_t> everyone(layout_.device_names.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    sum.target = maker_.tables().AddGroup(everyone);
    maker_.tables().Emit(device_, sum, {maker_.Plain(g_.clip_norm())});
  }

  // A device without samples still takes part in the sums, with zeros.
  void EmitZeros() {
    for (size_t b = 0; b < left_.size(); ++b) {
      if (left_[b] < 0) continue;
      std::vector<TensorId> gradients;
      for (const int32_t p : layout_.buckets[b].parameters) {
        gradients.push_back(g_.parameters()[static_cast<size_t>(p)].gradient);
      }
      EmitZero(fmt::format("Z{}", b), gradients);
    }
  }

  void EmitZero(std::string name, const std::vector<TensorId>& tensors) {
    Segment zero;
    zero.name = std::move(name);
    zero.time = Seconds{0};
    for (const TensorId tensor : tensors) maker_.AddPort(zero, tensor, PortUse::kWrite);
    Instruction in;
    in.target = maker_.tables().AddSegment(std::move(zero));
    maker_.tables().Emit(device_, in, {});
  }

  // Gradients that the segment adds to and that must start as zeros.
  void EmitFirstZeros(const SegmentTemplate& segment) {
    for (const TensorPort& port : segment.ports) {
      if (!pipeline_.zeroed[stage_].contains(port.tensor)) continue;
      if (!zeroed_.insert(port.tensor).second) continue;
      EmitZero(fmt::format("Z.{}", g_.tensor(port.tensor).name), {port.tensor});
    }
  }

  const Plan& plan_;
  const Graph& g_;
  const LowerOptions& options_;
  const PlanLayout& layout_;
  SegmentMaker& maker_;
  ServerSync* servers_;  // null: gradients are summed by all-reduces
  size_t p_, stage_;
  const PipelineLayout& pipeline_;
  int32_t device_;
  std::vector<Work> work_;
  std::vector<int> left_;          // by bucket: segments still to add to it; -1: not held here
  std::vector<size_t> unreduced_;  // buckets held here and elsewhere, not yet summed
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> touched_;  // (chunk, segment) -> buckets
  std::set<std::pair<size_t, size_t>> started_;                       // segments that ran before
  std::set<TensorId> zeroed_;  // gradients set to zero so far
  std::vector<Leaving> leaving_;
  bool split_ = false;                             // does a backward come in parts?
  std::map<Key, size_t> last_use_;                 // with a split backward: place of the work
  std::set<std::pair<TensorId, int32_t>> shared_;  // tensors and forms that are freed by order
  std::set<TensorId> passed_on_;                   // gradients for the chunks before
  std::map<std::pair<size_t, WorkKind>, std::vector<TensorId>> used_;  // by chunk and kind
  std::set<Key> sent_;  // with a split backward: gradients sent on
};

void AddDevices(const Graph& graph, const PlanLayout& layout, SegmentMaker& maker,
                const ServerSync* servers, Program& program) {
  for (size_t d = 0; d < layout.device_names.size(); ++d) {
    DeviceProgram& device = program.devices.emplace_back();
    device.name = layout.device_names[d];
    for (const int32_t p : layout.held[d]) {
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
      device.holds.push_back(maker.Plain(parameter.tensor));
      const bool keeps = servers == nullptr || servers->Updates(static_cast<int32_t>(d), p);
      if (!keeps) continue;
      for (const TensorId state : parameter.states) device.holds.push_back(maker.Plain(state));
    }
  }
}

// A Program grows with the layers on each device, and so does the time of all who read it: larger
// ones than anybody trains are refused before they are made.
Status CheckSize(const Plan& plan) {
  constexpr int64_t kMost = 4'000'000;
  int64_t layers = 0;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (const LayerRun& run : stage.chunks) {
        layers += (int64_t{run.last} - run.first + 1) * std::ssize(stage.devices);
      }
    }
  }
  if (layers <= kMost) return Ok();
  return BadInput(
      "plan",
      fmt::format("{} layers, counted on each device they are on: too large a Program",
                  GroupDigits(layers)),
      fmt::format("at most {}; give the model stages, or use fewer devices", GroupDigits(kMost)));
}

}  // namespace

Result<Program> LowerPlan(const Plan& plan, const Graph& graph, const LowerOptions& options) {
  HEDDLE_RETURN_IF_ERROR(CheckSize(plan));
  Program program;
  program.strategy = plan.strategy;
  program.model = plan.request.model;
  program.profile_batch = plan.request.profile_batch.value_or(0);
  program.profile_device = plan.request.profile_device;
  program.model_hash = plan.model_hash;
  program.cluster_hash = plan.cluster_hash;
  program.updates = 1;
  program.rule = UpdateRule::kFlush;
  if (plan.spmd || plan.has_bodies()) {
    return LowerBodies(plan, graph, options, std::move(program));
  }
  if (plan.async) return LowerAsync(plan, graph, std::move(program));
  if (plan.local) return LowerLocal(plan, graph, std::move(program));
  const PlanLayout layout = LayOut(plan, graph);
  const auto lanes = static_cast<double>(2 * layout.chain.layers.size() * layout.most_crossing);
  constexpr double kMostTags = 1 << 30;  // larger ones are for the runtime itself
  if (lanes * static_cast<double>(plan.microbatches) > kMostTags) {
    return BadInput("plan", "too many messages to tell them apart", "use fewer microbatches");
  }
  program.layers = layout.chain.size();
  program.microbatch_rows = layout.microbatch_rows;
  SegmentMaker maker(graph, layout, program);
  std::optional<ServerSync> servers;
  if (plan.request.sync == GradientSync::kServers) {
    const double tags = lanes * static_cast<double>(plan.microbatches);
    servers.emplace(graph, layout, maker, static_cast<int32_t>(tags));
  }
  ServerSync* const served = servers ? &*servers : nullptr;
  AddDevices(graph, layout, maker, served, program);
  const std::vector<int32_t> updates = AddUpdates(graph, layout, maker);
  for (size_t p = 0; p < layout.pipelines.size(); ++p) {
    const PipelineLayout& pipeline = layout.pipelines[p];
    AddChannels(pipeline, program);
    for (size_t s = 0; s < pipeline.devices.size(); ++s) {
      for (size_t j = 0; j < pipeline.devices[s].size(); ++j) {
        DeviceLowering(plan, graph, options, layout, maker, served, p, s, j).Run(updates);
      }
    }
  }
  OrderReceives(program);
  return program;
}

}  // namespace heddle
