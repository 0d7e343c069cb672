#include "door/share_door.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

namespace heddle {
namespace {

struct Close {
  void operator()(heddle_share_seat* seat) const { heddle_share_close(seat); }
};
using Seat = std::unique_ptr<heddle_share_seat, Close>;

// The same in forked children.
const std::string kShare = "door-test-" + std::to_string(getpid());

Seat Open() { return Seat(heddle_share_open(kShare.c_str())); }

Seat Join(const char* job, int32_t rank, int32_t ranks) {
  constexpr heddle_share_patience kPatience = {60, 1e6, 60};
  Seat seat = Open();
  EXPECT_EQ(heddle_share_join(seat.get(), job, rank, ranks, rank, 0, &kPatience), 0)
      << heddle_share_error();
  return seat;
}

// A whole step of a rank; the number of its turn.
int64_t Step(heddle_share_seat* seat) {
  if (heddle_share_begin_turn(seat) != 0) return -1;
  const int64_t turn = heddle_share_turn(seat);
  const int64_t place = heddle_share_post(seat);
  if (heddle_share_end_turn(seat) != 0) return -1;
  if (heddle_share_await_network(seat, place) != 0) return -1;
  return heddle_share_leave_network(seat, place) == 0 ? turn : -1;
}

TEST(ShareDoor, JobsTakeTurns) {
  const Seat a = Join("a", 0, 1), b = Join("b", 0, 1);
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(Step(a.get()), 2 * step) << heddle_share_error();
    EXPECT_EQ(Step(b.get()), 2 * step + 1) << heddle_share_error();
  }
}

TEST(ShareDoor, ATurnIsBegunOnceAndPostedOnce) {
  const Seat seat = Join("a", 0, 1);
  EXPECT_EQ(heddle_share_turn(seat.get()), -1);
  EXPECT_EQ(heddle_share_begin_turn(seat.get()), 0);
  EXPECT_EQ(heddle_share_pause(seat.get()), 0);
  EXPECT_EQ(heddle_share_begin_turn(seat.get()), 0);
  EXPECT_EQ(heddle_share_turn(seat.get()), 0);
  EXPECT_EQ(heddle_share_post(seat.get()), 0);
  EXPECT_EQ(heddle_share_post(seat.get()), 0);
  EXPECT_EQ(heddle_share_end_turn(seat.get()), 0);
  EXPECT_EQ(heddle_share_end_turn(seat.get()), 0);
  EXPECT_EQ(heddle_share_post(seat.get()), 1);
}

TEST(ShareDoor, AJobStartsWithItsLastRank) {
  const Seat first = Join("a", 0, 2);
  std::thread waits([&] { EXPECT_EQ(Step(first.get()), 0) << heddle_share_error(); });
  const Seat second = Join("a", 1, 2);
  EXPECT_EQ(Step(second.get()), 0) << heddle_share_error();
  waits.join();
}

TEST(ShareDoor, ErrorsHaveAText) {
  EXPECT_EQ(heddle_share_open("a/b"), nullptr);
  EXPECT_EQ(std::string(heddle_share_error()),
            "share a/b: is no name for a share (1 to 64 letters, digits, -, _ and ., not beginning "
            "with a dot)");
  EXPECT_EQ(heddle_share_begin_turn(nullptr), -1);
  const Seat seat = Open();
  EXPECT_EQ(heddle_share_begin_turn(seat.get()), -1);
  EXPECT_EQ(std::string(heddle_share_error()), "share: the seat is not taken (heddle_share_join)");
  const Seat a = Join("a", 0, 1);
  EXPECT_EQ(heddle_share_join(seat.get(), "a", 0, 1, 0, 0, nullptr), -1);
  EXPECT_EQ(heddle_share_join(seat.get(), "b", 0, 1, 0, 0, nullptr), 0) << "the seat is still free";
}

TEST(ShareDoor, PeersOfTheDeadAreTold) {
  const Seat seat = Join("a", 0, 2), other = Join("b", 0, 1);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    Seat mine = Join("a", 1, 2);
    if (heddle_share_begin_turn(mine.get()) != 0 || write(ends[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char there = 0;
  ASSERT_EQ(read(ends[0], &there, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(heddle_share_check(seat.get()), -1);
  const std::string why = heddle_share_error();
  EXPECT_EQ(
      why, "job a: was struck from the share: rank 1 (process " + std::to_string(child) + ") died");
  EXPECT_EQ(heddle_share_begin_turn(seat.get()), -1);
  EXPECT_EQ(heddle_share_error(), why);
  EXPECT_GE(Step(other.get()), 0) << "others go on";
}

TEST(ShareDoor, WhoFailsSaysWhy) {
  const Seat a = Join("a", 0, 2), peer = Join("a", 1, 2);
  EXPECT_EQ(heddle_share_fail(a.get(), "out of data"), 0);
  EXPECT_EQ(heddle_share_begin_turn(peer.get()), -1);
  EXPECT_EQ(std::string(heddle_share_error()),
            "job a: was struck from the share: rank 0 failed: out of data");
}

TEST(ShareDoor, WhoLeavesBeforeTheStartTellsTheOthers) {
  const Seat peer = Join("a", 0, 2);
  EXPECT_EQ(heddle_share_leave(peer.get()), 0);
  EXPECT_EQ(heddle_share_leave(peer.get()), -1) << "it has left";
  const Seat again = Join("a", 1, 2);  // another attempt: a job of its own
  EXPECT_EQ(heddle_share_check(again.get()), 0);
}

TEST(ShareDoor, AForkedChildHasNoSeat) {
  const Seat seat = Join("a", 0, 1);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = heddle_share_begin_turn(seat.get()) == -1;
    heddle_share_close(seat.get());
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Step(seat.get()), 0) << heddle_share_error();
}

TEST(ShareDoor, LeavingGivesTheDeviceBack) {
  Seat a = Join("a", 0, 1);
  const Seat b = Join("b", 0, 1);
  ASSERT_EQ(heddle_share_begin_turn(a.get()), 0);
  ASSERT_EQ(heddle_share_jobs(b.get()), 2);
  a.reset();
  EXPECT_EQ(heddle_share_jobs(b.get()), 1);
  EXPECT_GE(Step(b.get()), 0);
  EXPECT_GE(Step(b.get()), 0);
}

}  // namespace
}  // namespace heddle
