// Who waits for what a computation needs does not compute: whoever watches must be able to tell.

#include <gtest/gtest.h>

#include "program/text/program_text.h"
#include "run/worker.h"

namespace heddle {
namespace {

// A stage whose input another device sends.
constexpr char kStage[] = R"(heddle-program 1
strategy hand
samples 1 as 1
updates 0
layers 0
device 0 "a:0"
device 1 "b:0"
tensor x f32[1,4] activation
segment F0 forward
  writes x#
segment F1 forward
  consumes x#
body
on 0
  compute F0 #0
  send x#0 to 1 tag 0
  free x#0
on 1
  recv x#0 from 0 tag 0
  compute F1 #0
)";

// Notes whether the device says that it computes.
struct Seen {
  WorkerProgress progress;
  std::vector<std::string> notes;

  void Note(const std::string& what) {
    const std::optional<WorkerPlace> place = progress.Load();
    notes.push_back(what + (place && place->computing ? " computing" : " waiting"));
  }
};

class NotingTicket final : public Ticket {
 public:
  explicit NotingTicket(Seen& seen) : seen_(seen) {}
  void Wait() override { seen_.Note("message"); }

 private:
  Seen& seen_;
};

class NotingCommunicator final : public Communicator {
 public:
  explicit NotingCommunicator(Seen& seen) : seen_(seen) {}
  TicketPtr Send(int32_t, int32_t, Payload) override { return Make(); }
  TicketPtr Receive(int32_t, int32_t, Payload) override { return Make(); }
  TicketPtr Collective(CollectiveCall) override { return Make(); }

 private:
  TicketPtr Make() { return std::make_shared<NotingTicket>(seen_); }
  Seen& seen_;
};

class NotingExecutor final : public Executor {
 public:
  explicit NotingExecutor(Seen& seen) : seen_(seen) {}
  void Compute(const Instruction&, int64_t) override { seen_.Note("arithmetic"); }
  Payload Outgoing(const BufferRef&, int64_t) override { return {}; }
  Payload Incoming(const BufferRef&, int64_t) override { return {}; }
  Payload InPlace(const BufferRef&, int64_t) override { return {}; }
  ExchangeBlocks Exchange(const Instruction&, int64_t) override { return {}; }
  void Free(const BufferRef&, int64_t) override {}
  void Alias(const BufferRef&, const BufferRef&, int64_t) override {}
  DType dtype() const override { return DType::kF32; }

 private:
  Seen& seen_;
};

TEST(WorkerProgressTest, WaitingForAMessageIsNotComputing) {
  const Program program = ParseProgram(kStage, "stage").value();
  Seen seen;
  NotingExecutor executor(seen);
  NotingCommunicator communicator(seen);
  WorkerOptions options;
  options.progress = &seen.progress;
  ASSERT_TRUE(RunDevice(program, 1, executor, communicator, options).ok());
  EXPECT_EQ(seen.notes, (std::vector<std::string>{"message waiting", "arithmetic computing"}));
}

TEST(WorkerProgressTest, APlaceIsOneNumber) {
  WorkerProgress progress;
  EXPECT_FALSE(progress.Load());
  progress.Store({int64_t{1} << 33, Section::kEpilogue, 12345, true});
  const WorkerPlace place = *progress.Load();
  EXPECT_EQ(place.step, int64_t{1} << 33);
  EXPECT_EQ(place.section, Section::kEpilogue);
  EXPECT_EQ(place.instruction, 12345);
  EXPECT_TRUE(place.computing);
}

}  // namespace
}  // namespace heddle
