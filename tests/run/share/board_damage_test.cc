#include "run/share/board_damage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "run/share/board.h"
#include "support/child_process.h"

namespace heddle {
namespace {

// Two jobs of two ranks on two devices, all of them this process; "a" has device 0 and a place.
struct Life {
  explicit Life(TurnOrder order = TurnOrder::kRotation)
      : board(Board::Create({order, {0, 1}}).value()) {
    for (const std::string name : {"a", "b"}) {
      const int32_t job =
          board.AddJob({.name = name, .devices = {0, 1}, .turns = 100, .lease = 60}).value();
      for (int32_t rank = 0; rank < 2; ++rank) board.Enter(job, rank);
      board.Activate(std::vector<int32_t>{job});
    }
    grant = *board.TryAcquire(0, 0).value();
    board.TakePlace(0, 0, grant.turn);
  }

  Board board;
  Grant grant;
};

struct Harm {
  const char* name;
  std::function<void(BoardMemory&)> done;
};

void PrintTo(const Harm& harm, std::ostream* out) { *out << harm.name; }

// Bytes of a record that the type itself does not allow.
template <class T>
void Poke(T& at, unsigned char byte) {
  std::memset(static_cast<void*>(&at), byte, sizeof at);
}

class DamagedBoard : public testing::TestWithParam<Harm> {};

// Nobody crashes and nobody waits: both jobs hear the reason.
TEST_P(DamagedBoard, IsWrittenOffAndSaysSo) {
  Life life;
  Board& board = life.board;
  GetParam().done(board.memory());
  board.Sweep();
  for (const int32_t job : {0, 1}) {
    EXPECT_EQ(board.state(job), JobState::kDead);
    EXPECT_NE(board.why(job).find("memory that jobs share is damaged"), std::string::npos)
        << board.why(job);
  }
  EXPECT_FALSE(board.Acquire(1, 0).ok());
  EXPECT_FALSE(board.AwaitPlace(0, 0, life.grant.turn).ok());
  EXPECT_FALSE(board.Release(0, 0, life.grant));
  board.LeavePlace(0, 0, life.grant.turn);
  EXPECT_FALSE(FindDamage(board.memory(), BoardNow()));
}

TEST_P(DamagedBoard, OthersMayBeginAnew) {
  Life life;
  GetParam().done(life.board.memory());
  const int32_t job = life.board.Join({.job = "c"}).value();
  EXPECT_TRUE(life.board.Acquire(job, 0).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Board, DamagedBoard,
    testing::Values(
        Harm{"number_of_jobs", [](BoardMemory& m) { m.jobs = -3; }},
        Harm{"more_jobs_than_fit", [](BoardMemory& m) { m.jobs = kMostJobs + 1; }},
        Harm{"number_of_devices", [](BoardMemory& m) { m.devices = 65; }},
        Harm{"order_of_turns", [](BoardMemory& m) { m.order = static_cast<TurnOrder>(9); }},
        Harm{"node_of_a_device", [](BoardMemory& m) { m.node_of[1] = 1 << 20; }},
        Harm{"turns_scheduled", [](BoardMemory& m) { m.scheduled = INT64_MIN; }},
        Harm{"sweep_of_tomorrow", [](BoardMemory& m) { m.last_sweep = INT64_MAX; }},
        Harm{"name_without_end", [](BoardMemory& m) { m.job[0].name.fill('x'); }},
        Harm{"reason_without_end", [](BoardMemory& m) { m.job[1].why.fill('x'); }},
        Harm{"state_of_a_job", [](BoardMemory& m) { m.job[0].state = static_cast<JobState>(77); }},
        Harm{"number_of_ranks", [](BoardMemory& m) { m.job[0].ranks = 100'000; }},
        Harm{"device_of_a_rank", [](BoardMemory& m) { m.job[1].rank[0].device = -7; }},
        Harm{"process_of_a_rank", [](BoardMemory& m) { m.job[1].rank[0].pid = -1; }},
        Harm{"a_truth_that_is_neither", [](BoardMemory& m) { Poke(m.job[1].rank[0].left, 0x55); }},
        Harm{"beginning_of_time", [](BoardMemory& m) { m.job[0].idle_since = INT64_MIN; }},
        Harm{"first_turn_that_never_comes",
             [](BoardMemory& m) { m.job[0].first_turn = INT64_MAX; }},
        Harm{"weight_that_is_no_number",
             [](BoardMemory& m) { m.member[0].weight = std::numeric_limits<double>::quiet_NaN(); }},
        Harm{"debt_that_is_never_paid", [](BoardMemory& m) { m.member[1].deficit = -1e300; }},
        Harm{"holder", [](BoardMemory& m) { m.token[0].owner = 31; }},
        Harm{"rank_of_the_holder", [](BoardMemory& m) { m.token[0].owner_rank = 1 << 30; }},
        Harm{"holder_without_a_lease", [](BoardMemory& m) { m.token[0].lease = {}; }},
        Harm{"lease_of_tomorrow", [](BoardMemory& m) { m.token[0].lease.since = INT64_MAX / 2; }},
        Harm{"turn_that_never_comes", [](BoardMemory& m) { m.token[1].turn = INT64_MAX; }},
        Harm{"length_of_a_line", [](BoardMemory& m) { m.token[1].in_line = 1 << 20; }},
        Harm{"head_of_a_queue", [](BoardMemory& m) { m.network[0].head = INT64_MIN; }},
        Harm{"length_of_a_queue", [](BoardMemory& m) { m.network[1].tail = 1'000'000; }},
        Harm{"job_of_a_place", [](BoardMemory& m) { m.network[0].places[0].job = -1; }},
        Harm{"place_that_nobody_took",
             [](BoardMemory& m) { m.network[0].places[0].turn = 1 << 20; }},
        Harm{"all_bytes_set",
             [](BoardMemory& m) {
               constexpr size_t kFirst = offsetof(BoardMemory, editor);
               std::memset(reinterpret_cast<unsigned char*>(&m) + kFirst, 0xff,
                           sizeof(BoardMemory) - kFirst);
             }}),
    [](const auto& test) { return test.param.name; });

// What is not looked over is borne where it is read.
TEST(BoardDamage, AnySequenceIsBorne) {
  Life life;
  life.board.memory().sequence.fill(-1);
  EXPECT_TRUE(life.board.Release(0, 0, life.grant));
  life.board.memory().sequence.fill(1 << 30);
  EXPECT_TRUE(life.board.Acquire(1, 0).ok());
}

TEST(BoardDamage, AnyUseSideBySideEnds) {
  for (const double left : {std::numeric_limits<double>::quiet_NaN(), -1e300, 1e300}) {
    Life life;
    FairDevice& device = life.board.memory().fair_device[0];
    device.use[0] = {7, 6, left};
    device.updated = INT64_MIN;
    life.board.BeginFairUse(1, 0, 0, 1000);
    EXPECT_TRUE(life.board.AwaitFairUse(1, 0, 0).ok());
  }
}

TEST(BoardDamage, APlaceThatIsGoneIsAnErrorOfItsJob) {
  Life life;
  life.board.memory().network[0].head = life.board.memory().network[0].tail;
  const Status waited = life.board.AwaitPlace(0, 0, life.grant.turn);
  ASSERT_FALSE(waited.ok());
  EXPECT_NE(waited.error().what.find("its place in line for turn 0 is gone"), std::string::npos);
  EXPECT_EQ(life.board.state(1), JobState::kRunning);
}

TEST(BoardDamage, AJobThatLeavesWithItsDeviceDoesNotKeepIt) {
  Life life;
  for (const int32_t rank : {0, 1}) life.board.Leave(0, rank);
  EXPECT_TRUE(life.board.Acquire(1, 0).ok());
}

TEST(BoardDamage, WeightsThatCannotBeSharedAreRefused) {
  Board board = Board::Create({TurnOrder::kDeficit, {0}}).value();
  for (const double weight : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(board.AddJob({.name = "a", .devices = {0}, .turns = 1, .weight = weight}).ok());
  }
}

TEST(BoardDamage, TimesBeyondAllMeasureAreTheLongest) {
  EXPECT_EQ(BoardTime(1.5), 1'500'000'000);
  EXPECT_EQ(BoardTime(-1), 0);
  EXPECT_EQ(BoardTime(1e300), kLongestTime);
  EXPECT_EQ(BoardTime(std::nan("")), kLongestTime);
}

TEST(BoardDamage, WhereSharedMemoryIsTooSmallABoardIsAnErrorAndNoSignal) {
  const std::string said = InChild([]() -> std::string {
    if (!MountTinyDisk("/dev/shm", "64k")) return "not permitted";
    const Result<Board> board = Board::Create({TurnOrder::kRotation, {0}});
    return board.ok() ? "made" : board.error().ToString();
  });
  if (said == "not permitted") GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
}

// Whatever jobs do in whatever order, the board that results is not taken for damaged.
RC_GTEST_PROP(BoardDamageProperty, WhatJobsDoIsNoDamage, ()) {
  const auto order =
      *rc::gen::element(TurnOrder::kRotation, TurnOrder::kDeficit, TurnOrder::kArrival);
  Life life(order);
  Board& board = life.board;
  std::vector<std::vector<Grant>> held(2, std::vector<Grant>(2));
  held[0][0] = life.grant;
  for (int deed = 0; deed < 60; ++deed) {
    const int32_t job = *rc::gen::inRange(0, 2), rank = *rc::gen::inRange(0, 2);
    Grant& mine = held[static_cast<size_t>(job)][static_cast<size_t>(rank)];
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
        if (const auto grant = board.TryAcquire(job, rank); grant.ok() && grant.value()) {
          mine = *grant.value();
        }
        break;
      case 1:
        board.Release(job, rank, mine);
        break;
      case 2:
        if (mine.turn >= 0) board.TakePlace(job, rank, mine.turn);
        break;
      case 3:
        board.LeavePlace(job, rank, mine.turn);
        break;
      case 4:
        board.Sweep();
        break;
      default:
        board.BeginFairUse(job, rank, deed, 1000.0 * deed);
    }
    const auto damage = FindDamage(board.memory(), BoardNow());
    if (damage) RC_FAIL(*damage);
  }
}

}  // namespace
}  // namespace heddle
