// A rank's communication by the flow desk: when it starts, and when it has arrived.

#include "run/share/desk_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "run/rank_messages.h"

namespace heddle {
namespace {

// Counts what is begun; it ends at once.
class Counted final : public Communicator {
 public:
  TicketPtr Send(int32_t, int32_t tag, Payload) override { return Begin(tag); }
  TicketPtr Receive(int32_t, int32_t tag, Payload) override { return Begin(tag); }
  TicketPtr Collective(CollectiveCall) override { return Begin(-1); }

  TicketPtr Begin(int32_t tag) {
    last_tag = tag;
    ++begun;
    auto ticket = std::make_shared<LateTicket>();
    ticket->Finish("");
    return ticket;
  }
  std::atomic<int> begun{0}, last_tag{0};
};

class DeskCommunicatorTest : public testing::Test {
 protected:
  DeskCommunicatorTest()
      : board_(Board::Create({TurnOrder::kArrival, {0, 1}}).value()),
        desk_(FlowDesk::Create().value()) {
    jobs_ = {board_.AddJob({.name = "a", .devices = {0, 1}}).value()};
    board_.Activate(jobs_);
  }

  Seat SeatOf(bool paced) const {
    Seat seat{board_, 0, 0, ShareManner::kTurns, false, 1, {}, {}};
    seat.desk.emplace(DeskPlace{desk_, paced, {4, 7}, {{0, 1}}, 0.5, 0});
    return seat;
  }

  // The office's: what is posted next.
  FlowPost Posted() {
    while (posts_.empty()) {
      for (const FlowPost& post : desk_.Read(BoardNow() + 1'000'000)) posts_.push_back(post);
    }
    const FlowPost first = posts_.front();
    posts_.pop_front();
    return first;
  }

  Board board_;
  FlowDesk desk_;
  std::vector<int32_t> jobs_;
  std::deque<FlowPost> posts_;
  Counted real_;
};

// Grants lie in memory that other processes write.
TEST_F(DeskCommunicatorTest, AGrantOfWhatNobodyAskedForIsAnErrorAndNoCrash) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  const TicketPtr sent = communicator.Send(1, 3, {nullptr, nullptr, 100});
  desk_.Grant(0, 0, Posted().number + 7);
  EXPECT_THROW(sent->Wait(), PeerLost);
}

TEST_F(DeskCommunicatorTest, AMessageStartsWhenItIsGrantedAndIsThenReported) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  const TicketPtr sent = communicator.Send(1, 3, {nullptr, nullptr, 100});
  const FlowPost post = Posted();
  EXPECT_EQ(post.kind, -1);
  EXPECT_EQ(post.channel, 3);
  EXPECT_EQ(post.device[0], 4) << "of the cluster";
  EXPECT_EQ(post.device[1], 7);
  EXPECT_EQ(post.bytes[0], 50) << "of the plan's type";
  EXPECT_EQ(real_.begun, 0);
  desk_.Grant(0, 0, post.number);
  sent->Wait();
  EXPECT_EQ(real_.begun, 1);
  const FlowPost done = Posted();
  EXPECT_TRUE(done.performed);
  EXPECT_EQ(done.number, post.number);
}

TEST_F(DeskCommunicatorTest, OnAnEmulatedNetworkItArrivesWhenTheOfficeSaysSo) {
  int64_t arrived = 0;
  DeskCommunicator communicator(SeatOf(true), real_, [&](int64_t end) { arrived = end; });
  const TicketPtr received = communicator.Receive(1, 3, {nullptr, nullptr, 100});
  const FlowPost post = Posted();
  EXPECT_EQ(post.device[0], 7) << "the sender";
  desk_.Grant(0, 0, post.number);
  std::atomic<bool> waited{false};
  std::thread waits([&] {
    received->Wait();
    waited = true;
  });
  while (communicator.deadlines() == 0) std::this_thread::yield();
  EXPECT_FALSE(waited) << "it is moved, but on the wire";
  desk_.End(0, 0, post.number, 1234);
  waits.join();
  EXPECT_EQ(arrived, 1234);
  received->Wait();  // again: at once
  EXPECT_EQ(communicator.missed(), 0);
}

TEST_F(DeskCommunicatorTest, TheyStartInTheOrderOfGrants) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  const TicketPtr first = communicator.Send(1, 3, {});
  const TicketPtr second = communicator.Send(1, 4, {});
  const int64_t one = Posted().number, two = Posted().number;
  desk_.Grant(0, 0, two);
  second->Wait();
  EXPECT_EQ(real_.last_tag, 4);
  desk_.Grant(0, 0, one);
  first->Wait();
  EXPECT_EQ(real_.last_tag, 3);
}

TEST_F(DeskCommunicatorTest, AnAllReduceOfManyBuffersIsOneBlock) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  CollectiveCall call;
  for (int k = 0; k < 200; ++k) call.in.push_back({nullptr, nullptr, 10});
  const TicketPtr sum = communicator.Collective(std::move(call));
  const FlowPost post = Posted();
  EXPECT_EQ(post.ends, 2);
  EXPECT_EQ(post.blocks, 1);
  EXPECT_EQ(post.bytes[0], 1000);
  desk_.Grant(0, 0, post.number);
  sum->Wait();
}

TEST_F(DeskCommunicatorTest, ControlMessagesDoNotAsk) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  communicator.Send(1, kFirstControlTag, {})->Wait();
  EXPECT_EQ(real_.begun, 1);
}

TEST_F(DeskCommunicatorTest, WhoIsStruckWaitsNoLonger) {
  DeskCommunicator communicator(SeatOf(false), real_, [](int64_t) {});
  const TicketPtr sent = communicator.Send(1, 3, {});
  board_.MarkDead(0, "killed");
  EXPECT_THROW(sent->Wait(), PeerLost);
  EXPECT_THROW(communicator.Send(1, 3, {}), PeerLost);
}

TEST_F(DeskCommunicatorTest, NorDoesWhoWaitsForAnEmulatedWire) {
  DeskCommunicator communicator(SeatOf(true), real_, [](int64_t) {});
  const TicketPtr sent = communicator.Send(1, 3, {});
  desk_.Grant(0, 0, Posted().number);
  while (communicator.deadlines() == 0) std::this_thread::yield();
  board_.MarkDead(0, "killed");
  EXPECT_THROW(sent->Wait(), PeerLost);
}

}  // namespace
}  // namespace heddle
