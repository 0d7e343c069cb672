#include "run/share/turn_count.h"

#include <algorithm>
#include <memory>

#include "run/worker.h"

namespace heddle {
namespace {

class NoWork final : public Executor {
 public:
  void Compute(const Instruction&, int64_t) override {}
  Payload Outgoing(const BufferRef&, int64_t) override { return {}; }
  Payload Incoming(const BufferRef&, int64_t) override { return {}; }
  Payload InPlace(const BufferRef&, int64_t) override { return {}; }
  ExchangeBlocks Exchange(const Instruction&, int64_t) override { return {}; }
  void Free(const BufferRef&, int64_t) override {}
  void Alias(const BufferRef&, const BufferRef&, int64_t) override {}
  DType dtype() const override { return DType::kF32; }
};

class NoMessages final : public Communicator {
 public:
  TicketPtr Send(int32_t, int32_t, Payload) override { return std::make_shared<Done>(); }
  TicketPtr Receive(int32_t, int32_t, Payload) override { return std::make_shared<Done>(); }
  TicketPtr Collective(CollectiveCall) override { return std::make_shared<Done>(); }

 private:
  class Done final : public Ticket {
   public:
    void Wait() override {}
  };
};

class Counter final : public DeviceTurns {
 public:
  void Begin() override {}
  void End() override {}
  void Acquire() override {
    count_ += held_ ? 0 : 1;
    held_ = true;
  }
  void Release() override { held_ = false; }
  bool whole_steps() const override { return true; }
  void StepDone(int64_t) override {}
  void TakeHash() override {}
  void SetHash(std::function<uint64_t()>) override {}
  int64_t count() const { return count_; }

 private:
  bool held_ = false;
  int64_t count_ = 0;
};

Result<int64_t> Walk(const Program& program, int32_t device, int64_t repetitions) {
  NoWork executor;
  NoMessages communicator;
  Counter counter;
  WorkerOptions options;
  options.repetitions = repetitions;
  options.turns = &counter;
  HEDDLE_RETURN_IF_ERROR(RunDevice(program, device, executor, communicator, options));
  return counter.count();
}

}  // namespace

Result<int64_t> CountTurns(const Program& program, int32_t device, int64_t steps) {
  // Every repetition after the first adds as many as the second does.
  constexpr int64_t kWalked = 2;
  if (steps <= kWalked) return Walk(program, device, steps);
  HEDDLE_ASSIGN(const int64_t one, Walk(program, device, 1));
  HEDDLE_ASSIGN(const int64_t two, Walk(program, device, kWalked));
  return one + (steps - 1) * (two - one);
}

bool TakesWholeSteps(const Program& program) {
  const auto devices = static_cast<int32_t>(program.devices.size());
  if (program.has_section(Section::kPrologue) || program.has_section(Section::kEpilogue)) {
    return false;
  }
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code == OpCode::kSend || in.code == OpCode::kRecv || in.on_compute) return false;
      if (in.code != OpCode::kCollective) continue;
      if (in.kind != CollectiveKind::kAllReduce) return false;
      if (program.group(in.target).devices.size() != program.devices.size()) return false;
    }
  }
  constexpr int64_t kSteps = 2;
  const Result<int64_t> first = CountTurns(program, 0, kSteps);
  for (int32_t device = 0; device < devices; ++device) {
    const Result<int64_t> count = CountTurns(program, device, kSteps);
    if (!count.ok() || count.value() != first.value()) return false;
  }
  return true;
}

}  // namespace heddle
