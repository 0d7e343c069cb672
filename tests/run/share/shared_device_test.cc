#include "run/share/shared_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace heddle {
namespace {

// Counts collectives; they end when allowed.
class Gate final : public Communicator {
 public:
  TicketPtr Send(int32_t, int32_t, Payload) override { return std::make_shared<Open>(*this); }
  TicketPtr Receive(int32_t, int32_t, Payload) override { return std::make_shared<Open>(*this); }
  TicketPtr Collective(CollectiveCall) override {
    ++begun;
    return std::make_shared<Open>(*this);
  }
  std::atomic<int> begun{0};
  std::atomic<bool> open{false};

 private:
  class Open final : public Ticket {
   public:
    explicit Open(Gate& gate) : gate_(gate) {}
    void Wait() override {
      while (!gate_.open) std::this_thread::yield();
    }

   private:
    Gate& gate_;
  };
};

struct TwoJobs {
  TwoJobs() : board(Board::Create({TurnOrder::kRotation, {0}}).value()) {
    for (const char* name : {"a", "b"}) {
      jobs.push_back(board.AddJob({.name = name, .devices = {0}, .turns = 3}).value());
    }
    board.Activate(jobs);
  }
  Seat SeatOf(int32_t job) const { return {board, job, 0, ShareManner::kTurns, true, 1, {}, {}}; }
  Board board;
  std::vector<int32_t> jobs;
};

TEST(SharedDevice, TheNextJobComputesWhileThisOneCommunicatesAndThenQueuesBehindIt) {
  TwoJobs two;
  Gate network_a, network_b;
  SharedDevice a(two.SeatOf(0), network_a), b(two.SeatOf(1), network_b);
  a.turns().Acquire();
  const TicketPtr first = a.communicator().Collective({});
  a.turns().Release();
  while (network_a.begun == 0) std::this_thread::yield();
  b.turns().Acquire();  // though a's sum is under way
  const TicketPtr second = b.communicator().Collective({});
  b.turns().Release();
  EXPECT_EQ(network_b.begun, 0) << "a has the network";
  network_a.open = network_b.open = true;
  first->Wait();
  second->Wait();
  EXPECT_EQ(network_b.begun, 1);
  EXPECT_EQ(a.notes().turns, 1);
}

TEST(SharedDevice, HashesAreTakenOncePerStepWithoutTheDevice) {
  TwoJobs two;
  Gate network;
  network.open = true;
  SharedDevice a(two.SeatOf(0), network);
  int hashes = 0;
  a.turns().SetHash([&] {
    EXPECT_EQ(two.board.owner(0), -1);
    ++hashes;
    return uint64_t{7};
  });
  a.turns().Acquire();
  a.turns().Release();
  EXPECT_EQ(hashes, 0) << "no step has ended";
  const Result<Grant> other = two.board.TryAcquire(1, 0).value().value_or(Grant{});
  EXPECT_TRUE(two.board.Release(1, 0, other.value()));
  a.turns().Acquire();
  a.turns().StepDone(0);
  a.turns().Release();
  a.turns().TakeHash();
  EXPECT_FALSE(two.board.has_left(0, 0));
  a.turns().End();
  EXPECT_EQ(hashes, 1);
  EXPECT_EQ(a.notes().hashes, std::vector<uint64_t>{7});
  EXPECT_TRUE(two.board.has_left(0, 0)) << "its last step is done";
}

TEST(SharedDevice, AJobThatWasStruckLosesItsPeers) {
  TwoJobs two;
  Gate network;
  SharedDevice a(two.SeatOf(0), network);
  a.turns().Acquire();
  two.board.MarkDead(0, "hangs");
  EXPECT_THROW(a.turns().Release(), PeerLost);
  EXPECT_THROW(a.turns().Acquire(), PeerLost);
}

TEST(SharedDevice, NotesAreReadAsWritten) {
  RankNotes notes;
  notes.hashes = {1, UINT64_MAX};
  notes.step_ends = {5, 6};
  notes.turns = 3;
  notes.held = {4, 9};
  notes.deadlines = 4;
  notes.missed = 1;
  notes.longest_ratio = 0.5;
  notes.work = 2.5;
  notes.work_took = 3.5;
  const Json json = RankNotesToJson(notes);
  const Result<RankNotes> read = RankNotesFromJson(JsonField(json, "notes"));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(RankNotesToJson(read.value()), json);
}

}  // namespace
}  // namespace heddle
