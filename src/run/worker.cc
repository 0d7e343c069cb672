#include "run/worker.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "program/unroll.h"
#include "program/walk.h"
#include "run/rank_order_sum.h"
#include "run/updated_parameters.h"

namespace heddle {
namespace {

// Communication in flight, by buffer.
class InFlight {
 public:
  void Add(const BufferKey& key, TicketPtr ticket, bool writes) {
    uses_[key].push_back({std::move(ticket), writes});
  }
  // Before a read: whatever still writes the buffer. Before a write or free: everything.
  void WaitFor(const BufferKey& key, bool to_write) {
    const auto found = uses_.find(key);
    if (found == uses_.end()) return;
    std::erase_if(found->second, [&](const Use& use) {
      if (!to_write && !use.writes) return false;
      use.ticket->Wait();
      return true;
    });
    if (found->second.empty()) uses_.erase(found);
  }
  // Whether WaitFor would have something to wait for.
  bool Holds(const BufferKey& key, bool to_write) const {
    const auto found = uses_.find(key);
    return found != uses_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](const Use& use) { return to_write || use.writes; });
  }
  bool Writes(const std::unordered_set<int32_t>& tensors) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const auto& item) {
      return tensors.contains(item.first.tensor) && Holds(item.first, false);
    });
  }
  void WaitForAll() {
    for (auto& item : uses_) {
      for (const Use& use : item.second) use.ticket->Wait();
    }
    uses_.clear();
  }

 private:
  struct Use {
    TicketPtr ticket;
    bool writes;
  };
  std::unordered_map<BufferKey, std::vector<Use>> uses_;
};

EventKind EventOf(SegmentPhase phase) {
  if (phase == SegmentPhase::kForward) return EventKind::kForward;
  if (phase == SegmentPhase::kUpdate) return EventKind::kUpdate;
  if (phase == SegmentPhase::kBackwardWeight) return EventKind::kBackwardWeight;
  return phase == SegmentPhase::kOther ? EventKind::kOther : EventKind::kBackward;
}

// Its sum arrives in halves; whoever waits for it puts it where it belongs.
class HalvesTicket final : public Ticket {
 public:
  HalvesTicket(TicketPtr sum, std::shared_ptr<std::vector<std::byte>> halves,
               std::vector<Payload> buffers, DType dtype)
      : sum_(std::move(sum)),
        halves_(std::move(halves)),
        buffers_(std::move(buffers)),
        dtype_(dtype) {}

  void Wait() override {
    sum_->Wait();
    const std::byte* from = halves_->data();
    for (const Payload& buffer : buffers_) {
      const size_t count = buffer.bytes / static_cast<size_t>(SizeOf(dtype_));
      FromHalves(from, count, dtype_, buffer.data);
      from += count * static_cast<size_t>(SizeOf(DType::kF16));
    }
    buffers_.clear();
  }

 private:
  TicketPtr sum_;
  std::shared_ptr<std::vector<std::byte>> halves_;
  std::vector<Payload> buffers_;  // until they have it
  DType dtype_;
};

TicketPtr SumOfHalves(CollectiveCall call, Communicator& communicator) {
  size_t count = 0;
  for (const Payload& buffer : call.in) {
    count += buffer.bytes / static_cast<size_t>(SizeOf(call.dtype));
  }
  const auto halves =
      std::make_shared<std::vector<std::byte>>(count * static_cast<size_t>(SizeOf(DType::kF16)));
  std::byte* to = halves->data();
  for (const Payload& buffer : call.in) {
    const size_t part = buffer.bytes / static_cast<size_t>(SizeOf(call.dtype));
    ToHalves(call.dtype, buffer.data, part, to);
    to += part * static_cast<size_t>(SizeOf(DType::kF16));
  }
  std::vector<Payload> buffers = std::move(call.in);
  const DType dtype = call.dtype;
  call.in = {{halves, halves->data(), halves->size()}};
  call.dtype = DType::kF16;
  return std::make_shared<HalvesTicket>(communicator.Collective(std::move(call)), halves,
                                        std::move(buffers), dtype);
}

}  // namespace

TicketPtr PostCommunication(const Program& program, int32_t device, const Instruction& in,
                            int64_t i, Executor& executor, Communicator& communicator) {
  const DeviceProgram& d = program.devices[static_cast<size_t>(device)];
  const BufferRef* operands = d.operands.data() + in.first_operand;
  if (in.code == OpCode::kSend) {
    return communicator.Send(in.target, in.tag, executor.Outgoing(operands[0], i));
  }
  if (in.code == OpCode::kRecv) {
    return communicator.Receive(in.target, in.tag, executor.Incoming(operands[0], i));
  }
  const bool in_place =
      in.kind == CollectiveKind::kAllReduce || in.kind == CollectiveKind::kBroadcast;
  CollectiveCall call;
  call.kind = in.kind;
  call.algorithm = in.algorithm;
  call.group = in.target;
  call.root = in.tag;
  call.dtype = executor.dtype();
  if (in_place) {
    for (int32_t k = 0; k < in.operand_count; ++k) {
      call.in.push_back(executor.InPlace(operands[k], i));
    }
  } else {
    ExchangeBlocks blocks = executor.Exchange(in, i);
    call.in = std::move(blocks.in);
    call.out = std::move(blocks.out);
  }
  if (in.half) return SumOfHalves(std::move(call), communicator);
  return communicator.Collective(std::move(call));
}

namespace {

// One device at work.
class Worker {
 public:
  Worker(const Program& program, int32_t device, Executor& executor, Communicator& communicator,
         const WorkerOptions& options)
      : p_(program),
        device_(device),
        d_(program.devices[static_cast<size_t>(device)]),
        executor_(executor),
        communicator_(communicator),
        options_(options) {
    if (options.turns != nullptr) updated_ = UpdatedParameters(program, device);
  }

  Result<std::vector<TimelineEvent>> Run() {
    if (options_.turns != nullptr) options_.turns->Begin();
    HEDDLE_RETURN_IF_ERROR(RunList(Section::kPrologue, 0));
    int64_t i = 0;
    for (; i < repetitions(); ++i) {
      HEDDLE_RETURN_IF_ERROR(RunList(Section::kBody, i));
      StepDone(i);
    }
    HEDDLE_RETURN_IF_ERROR(RunList(Section::kEpilogue, i));
    GiveBack();
    in_flight_.WaitForAll();
    TakeHash();
    if (options_.turns != nullptr) options_.turns->End();
    Report(Section::kEpilogue, i - 1, std::ssize(d_.list(Section::kEpilogue)));
    return std::move(events_);
  }

 private:
  // Next instruction, wait for what it needs, do it, record its time.
  Status RunList(Section section, int64_t i) {
    for (const Instruction& in : d_.list(section)) {
      Report(section, i, &in - d_.list(section).data());
      if (in.code == OpCode::kCompute) {
        Compute(section, in, i);
        continue;
      }
      WaitForBuffers(in, i);
      const BufferRef* operands = d_.operands.data() + in.first_operand;
      if (in.code == OpCode::kFree) {
        for (int32_t k = 0; k < in.operand_count; ++k) executor_.Free(operands[k], i);
      } else if (in.code == OpCode::kAlias) {
        executor_.Alias(operands[0], operands[1], i);
      } else if (Communicates(in.code)) {
        // Who posts in turns queues for the network in the order of turns.
        if (in.code == OpCode::kCollective && whole_steps()) Take();
        const TicketPtr ticket = PostCommunication(p_, device_, in, i, executor_, communicator_);
        for (int32_t k = 0; k < UseCount(p_, in); ++k) {
          const BufferUse use = UseOf(p_, d_, in, k);
          in_flight_.Add(KeyOf(use.ref, i), ticket, use.alone);
        }
        if (in.on_compute) {
          GiveBack();
          ticket->Wait();
        }
      }
    }
    return Ok();
  }

  void WaitForBuffers(const Instruction& in, int64_t i) {
    if (!WaitsForBuffers(in.code)) return;
    for (int32_t k = 0; k < UseCount(p_, in); ++k) {
      const BufferUse use = UseOf(p_, d_, in, k);
      WaitFor(KeyOf(use.ref, i), use.alone);
    }
  }

  void Report(Section section, int64_t i, std::ptrdiff_t instruction, bool computing = false) {
    if (options_.progress == nullptr) return;
    options_.progress->Store({options_.first_step + i, section, instruction, computing});
  }

  // Of the body, as far as is known now.
  int64_t repetitions() const {
    if (options_.turns == nullptr) return options_.repetitions;
    return std::min(options_.repetitions, options_.turns->StopsAfter());
  }
  bool whole_steps() const { return options_.turns != nullptr && options_.turns->whole_steps(); }

  void Take() {
    if (options_.turns != nullptr) options_.turns->Acquire();
  }
  void GiveBack() {
    if (options_.turns == nullptr) return;
    options_.turns->Release();
    TakeHash();
  }

  void StepDone(int64_t i) {
    if (options_.turns == nullptr) return;
    options_.turns->StepDone(i);
    hash_is_due_ = true;
    // A turn of whole steps goes from one exchange to the next, if there is any.
    const std::vector<Instruction>& body = d_.list(Section::kBody);
    const bool exchanges = std::any_of(body.begin(), body.end(),
                                       [](const Instruction& in) { return Communicates(in.code); });
    if (!whole_steps() || !exchanges) options_.turns->Release();
  }

  // Before a wait: what a hash costs, nobody waits for. Weights may still be on their way.
  void TakeHash() {
    if (!hash_is_due_ || in_flight_.Writes(updated_)) return;
    options_.turns->TakeHash();
    hash_is_due_ = false;
  }

  void WaitFor(const BufferKey& key, bool to_write) {
    if (options_.turns == nullptr || !in_flight_.Holds(key, to_write)) {
      return in_flight_.WaitFor(key, to_write);
    }
    GiveBack();
    if (whole_steps()) {
      in_flight_.WaitForAll();
    } else {
      in_flight_.WaitFor(key, to_write);
    }
    TakeHash();
  }

  void Compute(Section section, const Instruction& in, int64_t i) {
    const Segment& segment = p_.segment(in.target);
    WaitForBuffers(in, i);
    if (segment.phase == SegmentPhase::kUpdate) TakeHash();  // of the step before
    Take();
    Report(section, i, &in - d_.list(section).data(), /*computing=*/true);
    const Seconds start = Now();
    executor_.Compute(in, i);
    const int32_t microbatch =
        in.microbatch.present() ? static_cast<int32_t>(in.microbatch.value(i)) : -1;
    events_.push_back({2 * device_, EventOf(segment.phase), in.target, microbatch,
                       static_cast<int32_t>(i), start, Now()});
  }

  Seconds Now() const { return {SecondsIn(options_.clock->Now() - options_.start)}; }

  const Program& p_;
  int32_t device_;
  const DeviceProgram& d_;
  Executor& executor_;
  Communicator& communicator_;
  const WorkerOptions& options_;
  InFlight in_flight_;
  std::unordered_set<int32_t> updated_;  // parameters
  bool hash_is_due_ = false;
  std::vector<TimelineEvent> events_;
};

}  // namespace

Result<std::vector<TimelineEvent>> RunDevice(const Program& program, int32_t device,
                                             Executor& executor, Communicator& communicator,
                                             const WorkerOptions& options) {
  return Worker(program, device, executor, communicator, options).Run();
}

}  // namespace heddle
