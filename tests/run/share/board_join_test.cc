#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "run/share/board.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

constexpr double kNoRest = 1e6;

Board MakeBoard() {
  return Board::Create({TurnOrder::kRotation, std::vector<int32_t>(4, 0)}).value();
}

RankEntry Entry(const std::string& job, int32_t rank, int32_t ranks) {
  return {.job = job, .rank = rank, .ranks = ranks, .device = rank, .rest_after = kNoRest};
}

std::string WhyNot(Board& board, const RankEntry& entry) {
  const Result<int32_t> job = board.Join(entry);
  if (job.ok()) return "";
  const Error& error = job.error();
  return error.where + ": " + error.what + " (" + error.hint + ")";
}

// One turn of a rank, if it is next.
bool TakesTurn(Board& board, int32_t job, int32_t rank, int64_t* turn = nullptr) {
  const auto grant = board.TryAcquire(job, rank);
  if (!grant.ok() || !grant.value()) return false;
  if (turn != nullptr) *turn = grant.value()->turn;
  return board.Release(job, rank, *grant.value());
}

TEST(BoardJoin, TheLastRankStartsTheJob) {
  Board board = MakeBoard();
  const int32_t job = board.Join(Entry("a", 1, 2)).value();
  EXPECT_EQ(board.state(job), JobState::kJoining);
  EXPECT_EQ(board.Join(Entry("a", 0, 2)).value(), job);
  EXPECT_EQ(board.state(job), JobState::kRunning);
  EXPECT_TRUE(board.AwaitStart(job).ok());
  EXPECT_TRUE(TakesTurn(board, job, 0));
}

TEST(BoardJoin, RefusalsNameTheRemedy) {
  Board board = MakeBoard();
  ASSERT_EQ(WhyNot(board, Entry("a", 0, 2)), "");
  EXPECT_EQ(WhyNot(board, Entry("a", 1, 3)),
            "job a, rank 1: says 3 ranks, another said 2 (all ranks of a job must say the same)");
  EXPECT_EQ(WhyNot(board, {.job = "a", .rank = 1, .ranks = 2, .device = 0}),
            "job a, rank 1: another rank of this job is on device 0 (a device for each rank)");
  EXPECT_EQ(WhyNot(board, Entry("a", 0, 2)),
            "job a, rank 0: there is a job of that name in this share, and it has this rank (take "
            "another name for the job)");
  EXPECT_EQ(WhyNot(board, {.job = "b", .node = 1}),
            "job b, rank 0: puts device 0 on node 1, job a on node 0 (all jobs must say the same)");
  EXPECT_EQ(WhyNot(board, Entry("a", 2, 2)),
            "job a, rank 2: is not one of 2 ranks (ranks count from 0; a job has at most 64)");
  EXPECT_EQ(WhyNot(board, {.job = "b", .device = 4}),
            "job b, rank 0: there is no device 4 on node 0 (devices are 0 to 3, nodes 0 to 63)");
  ASSERT_EQ(WhyNot(board, Entry("a", 1, 2)), "");
  EXPECT_NE(WhyNot(board, Entry("a", 0, 2)), "") << "it runs";
}

TEST(BoardJoin, WhoWaitsForAllRanksGivesUp) {
  Board board = MakeBoard();
  const int32_t job = board.Join(Entry("a", 1, 2)).value();
  board.TakePlaceEverywhere(job, 0, 0);  // too early: nothing happens
  const Status status = board.AwaitStart(job, 0.01);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().what.find("not all of its 2 ranks came"), std::string::npos);
}

TEST(BoardJoin, ARankThatDiesBeforeTheStartStrikesTheJob) {
  Board board = MakeBoard();
  const int32_t job = board.Join(Entry("a", 0, 3)).value();
  const pid_t child = fork();
  if (child == 0) _exit(board.Join(Entry("a", 1, 3)).ok() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const Status start = board.AwaitStart(job);
  ASSERT_FALSE(start.ok());
  EXPECT_NE(start.error().what.find("rank 1"), std::string::npos) << start.error().ToString();
  EXPECT_NE(start.error().what.find("died"), std::string::npos);
  // Its name is free again.
  EXPECT_NE(board.Join(Entry("a", 0, 1)).value(), job);
}

TEST(BoardJoin, ARankThatHasLeftDoesNotKeepItsDeviceWaiting) {
  Board board = MakeBoard();
  const int32_t a = board.Join(Entry("a", 0, 2)).value();
  board.Join(Entry("a", 1, 2)).value();
  const int32_t b = board.Join(Entry("b", 0, 1)).value();
  EXPECT_FALSE(TakesTurn(board, b, 0)) << "a is first";
  board.Leave(a, 0);
  EXPECT_EQ(board.state(a), JobState::kRunning);
  EXPECT_TRUE(TakesTurn(board, b, 0));
  EXPECT_TRUE(TakesTurn(board, b, 0));
}

TEST(BoardJoin, AJobThatDoesNothingIsPassedOverUntilItAsks) {
  Board board = MakeBoard();
  RankEntry lazy = Entry("a", 0, 1);
  lazy.rest_after = 1e-3;
  const int32_t a = board.Join(lazy).value(), b = board.Join(Entry("b", 0, 1)).value();
  for (int turn = 0; turn < 3; ++turn) {
    const Grant grant = board.Acquire(b, 0).value();  // returns though it is a's turn
    board.Release(b, 0, grant);
  }
  EXPECT_EQ(board.state(a), JobState::kRunning);
  int64_t first = 0, second = 0;
  ASSERT_TRUE(TakesTurn(board, b, 0, &first));
  const Grant grant = board.Acquire(a, 0).value();
  board.Release(a, 0, grant);
  ASSERT_TRUE(TakesTurn(board, b, 0, &second));
  EXPECT_LT(first, grant.turn);
  EXPECT_LT(grant.turn, second);
}

TEST(BoardJoin, ADeviceHeldWithoutWorkGoesToOthers) {
  Board board = MakeBoard();
  RankEntry lazy = Entry("a", 0, 1);
  lazy.rest_after = 1e-3;
  const int32_t a = board.Join(lazy).value(), b = board.Join(Entry("b", 0, 1)).value();
  const Grant idle = board.Acquire(a, 0).value();
  EXPECT_TRUE(board.Resume(a, 0, idle).value());
  board.Pause(a, 0);
  const Grant grant = board.Acquire(b, 0).value();
  EXPECT_FALSE(board.Resume(a, 0, idle).value());
  EXPECT_EQ(board.owner(0), b);
  board.Release(b, 0, grant);
  EXPECT_TRUE(board.Acquire(a, 0).ok()) << "it only rested";
}

TEST(BoardJoin, WhoComputesOrCommunicatesDoesNotRest) {
  FakeClock clock;
  Board board = Board::Create({TurnOrder::kRotation, std::vector<int32_t>(4, 0)}, clock).value();
  RankEntry busy = Entry("a", 0, 2), other = Entry("a", 1, 2);
  busy.rest_after = other.rest_after = 1e-3;
  const int32_t a = board.Join(busy).value();
  board.Join(other).value();
  const int32_t b = board.Join(Entry("b", 0, 1)).value();
  const auto sweep = [&] {
    clock.SleepFor(std::chrono::milliseconds(30));
    board.Sweep();
  };
  const Grant grant = board.Acquire(a, 0).value();
  sweep();
  EXPECT_TRUE(board.Resume(a, 0, grant).value()) << "it computes";
  board.TakePlaceEverywhere(a, 0, 0);
  board.Release(a, 0, grant);
  ASSERT_TRUE(TakesTurn(board, b, 0));
  sweep();
  EXPECT_FALSE(TakesTurn(board, b, 0)) << "a communicates, and is next";
  EXPECT_TRUE(TakesTurn(board, a, 0));
}

TEST(BoardJoin, AllNodesQueueInOneOrder) {
  Board board = MakeBoard();
  std::vector<int32_t> jobs;
  for (const std::string name : {"a", "b"}) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      RankEntry entry = Entry(name, rank, 2);
      entry.node = rank;
      jobs.resize(name == "a" ? 1 : 2, board.Join(entry).value());
    }
  }
  const int32_t a = jobs[0], b = jobs[1];
  board.TakePlaceEverywhere(a, 0, 0);  // by its rank on node 0
  board.TakePlaceEverywhere(b, 1, 0);  // by its rank on node 1, before a's there
  board.TakePlaceEverywhere(a, 1, 0);
  EXPECT_TRUE(board.AwaitPlace(a, 0, 0).ok());
  EXPECT_TRUE(board.AwaitPlace(a, 1, 0).ok());
  board.LeavePlace(a, 0, 0);
  board.LeavePlace(a, 1, 0);
  EXPECT_TRUE(board.AwaitPlace(b, 0, 0).ok());
  EXPECT_TRUE(board.AwaitPlace(b, 1, 0).ok());
}

TEST(BoardJoin, PlacesOfTheForgottenAreNotThoseOfTheNext) {
  Board board = MakeBoard();
  const int32_t first = board.Join(Entry("first", 0, 1)).value();
  for (int k = 1; k < kMostJobs; ++k) board.Leave(board.Join(Entry("x", 0, 1)).value(), 0);
  board.TakePlaceEverywhere(first, 0, 0);
  const int32_t dead = board.Join(Entry("dead", 0, 1)).value();
  board.TakePlaceEverywhere(dead, 0, 0);
  board.MarkDead(dead, "was killed");
  board.Leave(dead, 0);
  const int32_t next = board.Join(Entry("next", 0, 1)).value();
  ASSERT_EQ(next, dead);
  const int32_t last = board.Join(Entry("last", 0, 1)).value();
  board.TakePlaceEverywhere(last, 0, 0);
  board.TakePlaceEverywhere(next, 0, 0);
  board.LeavePlace(first, 0, 0);
  ASSERT_TRUE(board.AwaitPlace(last, 0, 0).ok()) << "before the next, not behind the dead";
  board.LeavePlace(last, 0, 0);
  EXPECT_TRUE(board.AwaitPlace(next, 0, 0).ok());
}

// More jobs than a board has numbers, one after the other, beside one that stays.
TEST(BoardJoin, NumbersAreUsedAgain) {
  Board board = MakeBoard();
  const int32_t stays = board.Join(Entry("stays", 0, 1)).value();
  for (int k = 0; k < 3 * kMostJobs; ++k) {
    const int32_t job = board.Join(Entry("comes", 0, 1)).value();
    TakesTurn(board, stays, 0);  // it may be before the other, but only once
    ASSERT_FALSE(TakesTurn(board, stays, 0)) << "the other is next";
    const auto grant = board.TryAcquire(job, 0);
    ASSERT_TRUE(grant.ok() && grant.value()) << k;
    board.TakePlaceEverywhere(job, 0, 0);
    ASSERT_TRUE(board.AwaitPlace(job, 0, 0).ok());
    if (k % 2 == 0) {
      board.MarkDead(job, "was struck");  // with device and place
      board.Leave(job, 0);
    } else {
      board.LeavePlace(job, 0, 0);
      board.Release(job, 0, *grant.value());
      board.Leave(job, 0);
    }
  }
  for (int k = 1; k < kMostJobs; ++k) {
    ASSERT_TRUE(board.Join(Entry("b" + std::to_string(k), 0, 1)).ok());
  }
  EXPECT_NE(WhyNot(board, Entry("c", 0, 1)), "") << "all numbers are taken";
}

}  // namespace
}  // namespace heddle
