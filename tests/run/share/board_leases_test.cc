// Who is struck from a board for keeping the others waiting, and who is not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "run/share/board.h"
#include "run/share/rank_beat.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kLease = 0.05;

TEST(Lease, IsAFewTimesWhatATurnShouldTakeAndAConstant) {
  EXPECT_EQ(LeaseTime({.expected = kSecond / 5}, false), 3 * kSecond / 5 + 6 * kSecond / 5);
  EXPECT_EQ(LeaseTime({}, false), 6 * kSecond / 5);
  EXPECT_GT(LeaseTime({}, true), LeaseTime({}, false)) << "the first turns are cold";
  // For turns of up to 0.2 s, the others go on less than 2 s after it should have ended.
  EXPECT_LT(LeaseTime({.expected = kSecond / 5}, false) - kSecond / 5, 2 * kSecond);
}

TEST(Lease, LearnsFromTheLongestOfLate) {
  Habit habit{.expected = 10};
  for (const int64_t took : {100, 800, 100}) habit.Learn(took);
  EXPECT_EQ(habit.longest, 700);
  EXPECT_EQ(LeaseTime(habit, false), 2100 + LeaseTime({}, false));
  for (int k = 0; k < 100; ++k) habit.Learn(100);
  EXPECT_EQ(habit.longest, 100);
}

TEST(Lease, IsOverAtASignOfLifeThatCameAfterIt) {
  const Lease lease{1000, 500, 70};
  EXPECT_FALSE(IsOver(lease, 70, 1500));
  EXPECT_TRUE(IsOver(lease, 70, 1501));
  EXPECT_FALSE(IsOver(lease, 80, 1501)) << "it could not run for a while";
  EXPECT_TRUE(IsOver(lease, 80, 1511));
  EXPECT_FALSE(IsOver({}, 0, 1501));
  EXPECT_FALSE(IsOver({1000, 0, 0}, 0, 1501)) << "half written";
}

// Two devices, each a node of its own; jobs whose ranks beat when the test says so, in time that
// passes when it does.
class BoardLeases : public testing::Test {
 protected:
  int32_t Start(const std::string& name, double lease) {
    const int32_t job =
        board_.AddJob({.name = name, .devices = {0, 1}, .turns = 100, .lease = lease}).value();
    for (const int32_t rank : {0, 1}) board_.Enter(job, rank);
    board_.Activate(std::vector<int32_t>{job});
    jobs_.push_back(job);
    return job;
  }
  Grant Take(int32_t job, int32_t rank) { return board_.TryAcquire(job, rank).value().value(); }
  // A turn and its place in line.
  Grant Compute(int32_t job, int32_t rank) {
    const Grant grant = Take(job, rank);
    board_.TakePlace(job, rank, grant.turn);
    EXPECT_TRUE(board_.Release(job, rank, grant));
    return grant;
  }
  // Several leases long.
  void LetTimePass(int64_t starved = 0, bool beats = true) {
    constexpr std::chrono::milliseconds kPause{10};
    for (int k = 0; k < 25; ++k) {
      for (const int32_t job : jobs_) {
        for (const int32_t rank : {0, 1}) {
          if (beats) board_.Beat(job, rank, starved);
        }
      }
      board_.Sweep();
      clock_.SleepFor(kPause);
    }
  }
  bool Runs(int32_t job) const { return board_.state(job) == JobState::kRunning; }

  FakeClock clock_;
  Board board_ = Board::Create({TurnOrder::kRotation, {0, 1}}, clock_).value();
  std::vector<int32_t> jobs_;
};

TEST_F(BoardLeases, AHolderBeyondItsLeaseLosesTheDevice) {
  const int32_t a = Start("a", kLease), b = Start("b", 60);
  const RankBeat beat(board_, a, 0);
  const Clock::Time start = clock_.Now();
  const Grant grant = Take(a, 0);
  ASSERT_TRUE(board_.Acquire(b, 0).ok());  // waits for the lease to end
  // A sign of life after the lease, every 50 ms; a look at it, every 20 ms.
  EXPECT_GT(clock_.Now() - start, std::chrono::milliseconds(50));
  EXPECT_LE(clock_.Now() - start, std::chrono::milliseconds(50 + 50 + 20));
  EXPECT_THAT(board_.why(a),
              HasSubstr("rank 0 hangs: it kept device 0 beyond its lease of 0.05 s"));
  EXPECT_FALSE(board_.Release(a, 0, grant));
  EXPECT_EQ(board_.owner(0), b);
}

TEST_F(BoardLeases, TimeInWhichTheHolderCouldNotRunDoesNotCount) {
  const int32_t a = Start("a", kLease);
  Start("b", 60);
  Take(a, 0);
  LetTimePass(kSecond);
  EXPECT_TRUE(Runs(a)) << board_.why(a);
}

TEST_F(BoardLeases, WhoGivesNoSignOfLifeIsNotJudgedByItsLease) {
  const int32_t a = Start("a", kLease);
  Start("b", 60);
  Take(a, 0);
  LetTimePass(0, false);
  EXPECT_TRUE(Runs(a)) << board_.why(a);
  LetTimePass();
  EXPECT_FALSE(Runs(a));
}

// Nobody knows yet what they should take: 1.2 s, and 5 s to warm up.
TEST_F(BoardLeases, TheFirstTurnsHaveTimeToWarmUp) {
  const int32_t a = Start("a", 0);
  Start("b", 60);
  const Clock::Time start = clock_.Now();
  for (const int32_t rank : {0, 1}) Take(a, rank);
  while (Runs(a)) LetTimePass();
  EXPECT_GT(clock_.Now() - start, std::chrono::milliseconds(6200));
  EXPECT_LE(clock_.Now() - start, std::chrono::milliseconds(6500));
}

// Leases by habit are three times the longest turn of late and 1.2 s. Somebody looks every 20 ms.
TEST_F(BoardLeases, AHabitIsLearnedFromTurnsAndGivesTheLease) {
  const int32_t a = Start("a", 0);
  Start("b", 60);
  for (int turn = 0; turn < 6; ++turn) {
    for (const int32_t job : {0, 1}) {
      for (const int32_t rank : {0, 1}) {
        const Grant grant = Take(job, rank);
        clock_.SleepFor(std::chrono::milliseconds(job == a ? 100 : 10));
        board_.TakePlace(job, rank, grant.turn);
        EXPECT_TRUE(board_.Release(job, rank, grant));
      }
      for (const int32_t rank : {0, 1}) board_.LeavePlace(job, rank, 2 * turn + job);
    }
  }
  Take(a, 0);
  for (const int64_t milliseconds : {1490, 21}) {
    EXPECT_TRUE(Runs(a)) << board_.why(a);
    clock_.SleepFor(std::chrono::milliseconds(milliseconds));
    for (const int32_t rank : {0, 1}) board_.Beat(a, rank);
    board_.Sweep();
  }
  EXPECT_THAT(board_.why(a), HasSubstr("beyond its lease of 1.5 s"));
}

TEST_F(BoardLeases, AJobMustComeForItsTurn) {
  const int32_t a = Start("a", kLease), b = Start("b", 60);
  Compute(a, 0);
  EXPECT_FALSE(board_.TryAcquire(b, 1).value().has_value()) << "it is a's turn";
  LetTimePass();
  EXPECT_THAT(board_.why(a), HasSubstr("rank 1 hangs: it did not come for its turn on device 1"));
  EXPECT_TRUE(Runs(b));
  Take(b, 1);
}

TEST_F(BoardLeases, WhoCannotComeBecauseItsSumIsInLineIsNotToBlame) {
  const int32_t a = Start("a", 60), b = Start("b", kLease);
  for (const int32_t job : {a, b}) {
    for (const int32_t rank : {0, 1}) Compute(job, rank);
  }
  board_.LeavePlace(a, 1, 0);  // a's sum still has the network of node 0: b's waits for it
  Compute(a, 1);
  EXPECT_FALSE(board_.TryAcquire(a, 1).value().has_value()) << "it is b's turn";
  LetTimePass();
  EXPECT_TRUE(Runs(b)) << board_.why(b);
}

TEST_F(BoardLeases, AJobBeyondItsLeaseLosesTheNetwork) {
  const int32_t a = Start("a", kLease), b = Start("b", 60);
  for (const int32_t job : {a, b}) {
    for (const int32_t rank : {0, 1}) Compute(job, rank);
  }
  board_.LeavePlace(a, 1, 0);
  LetTimePass();
  EXPECT_THAT(board_.why(a), HasSubstr("it kept the network of node 0 beyond its lease"));
  EXPECT_TRUE(board_.AwaitPlace(b, 0, 1).ok());
}

// First in line on node 0, it waits for its own rank 1, and that for b, which has its device.
TEST(BoardIdle, WhoHangsWithEmptyHandsIsStruckInTheEnd) {
  FakeClock clock;
  Board board = Board::Create({TurnOrder::kArrival, {0, 1}}, clock).value();
  const auto add = [&](const char* name, int32_t device) {
    return board.AddJob({.name = name, .devices = {device}, .turns = 9, .lease = kLease}).value();
  };
  const int32_t jobs[] = {add("idle", 0), add("at work", 1)};
  board.Activate(jobs);
  ASSERT_TRUE(board.TryAcquire(1, 0).value().has_value());
  while (board.state(0) == JobState::kRunning) {
    clock.SleepFor(std::chrono::milliseconds(5));
    board.Sweep();
  }
  EXPECT_THAT(board.why(0), HasSubstr("none of its ranks has computed or asked for a device"));
  EXPECT_EQ(board.state(1), JobState::kRunning) << "it has given no sign of life since, but works";
}

TEST_F(BoardLeases, WhoseOtherRanksAreHeldUpIsNotToBlame) {
  const int32_t b = Start("b", 60), a = Start("a", kLease);
  const Grant first = Take(b, 0);
  EXPECT_TRUE(board_.Release(b, 0, first));
  Take(b, 1);
  Compute(a, 0);
  LetTimePass();
  EXPECT_TRUE(Runs(a)) << board_.why(a);
  EXPECT_TRUE(Runs(b)) << board_.why(b);
}

}  // namespace
}  // namespace heddle
