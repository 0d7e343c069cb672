#include "run/share/board.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_clock.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;

Board MakeBoard(TurnOrder order, std::vector<int32_t> node_of) {
  return Board::Create({order, std::move(node_of)}).value();
}

// A job that is there at once, all its ranks being this process.
int32_t Start(Board& board, const std::string& name, std::vector<int32_t> devices,
              int64_t turns = 1000, double lease = 60) {
  const auto ranks = static_cast<int32_t>(devices.size());
  const int32_t job =
      board.AddJob({.name = name, .devices = std::move(devices), .turns = turns, .lease = lease})
          .value();
  for (int32_t rank = 0; rank < ranks; ++rank) board.Enter(job, rank);
  board.Activate(std::vector<int32_t>{job});
  return job;
}

bool CanTake(Board& board, int32_t job, int32_t rank, Grant* grant = nullptr) {
  const auto tried = board.TryAcquire(job, rank);
  if (!tried.ok() || !tried.value()) return false;
  if (grant != nullptr) *grant = *tried.value();
  return true;
}

// Takes turns in whatever order the board allows, until nobody can; the order on one device.
std::string OrderOn(Board& board, const std::vector<std::pair<int32_t, int32_t>>& seats) {
  std::string order;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [job, rank] : seats) {
      Grant grant;
      if (!CanTake(board, job, rank, &grant)) continue;
      order += board.name(job);
      EXPECT_TRUE(board.Release(job, rank, grant));
      moved = true;
    }
  }
  return order;
}

TEST(Board, TurnsGoRoundOnEveryDevice) {
  Board board = MakeBoard(TurnOrder::kRotation, {0, 0});
  const int32_t a = Start(board, "a", {0, 1}, 3), b = Start(board, "b", {0, 1}, 2);
  EXPECT_EQ(OrderOn(board, {{a, 0}, {b, 0}}), "ababa");
  EXPECT_EQ(OrderOn(board, {{b, 1}, {a, 1}}), "ababa");
}

TEST(Board, OneHolderAtATime) {
  Board board = MakeBoard(TurnOrder::kRotation, {0});
  const int32_t a = Start(board, "a", {0}), b = Start(board, "b", {0});
  Grant grant;
  ASSERT_TRUE(CanTake(board, a, 0, &grant));
  EXPECT_EQ(board.owner(0), a);
  EXPECT_FALSE(CanTake(board, b, 0));
  EXPECT_FALSE(CanTake(board, a, 0));
  EXPECT_TRUE(board.Release(a, 0, grant));
  EXPECT_FALSE(CanTake(board, a, 0)) << "it is b's turn, though b has not come";
  EXPECT_TRUE(CanTake(board, b, 0));
}

TEST(Board, DevicesLeaveOutJobsThatTheyDoNotHave) {
  Board board = MakeBoard(TurnOrder::kRotation, {0, 0, 0});
  const int32_t a = Start(board, "a", {0, 1}, 2), b = Start(board, "b", {1, 2}, 2);
  EXPECT_EQ(OrderOn(board, {{a, 0}}), "aa");
  EXPECT_EQ(OrderOn(board, {{a, 1}, {b, 0}}), "abab");
  EXPECT_EQ(OrderOn(board, {{b, 1}}), "bb");
}

TEST(Board, AJobJoinsAfterEveryTurnThatWasGiven) {
  Board board = MakeBoard(TurnOrder::kRotation, {0, 0});
  const int32_t a = Start(board, "a", {0, 1}, 4), b = Start(board, "b", {0, 1}, 4);
  Grant grant;
  ASSERT_TRUE(CanTake(board, a, 0, &grant));
  board.Release(a, 0, grant);
  ASSERT_TRUE(CanTake(board, b, 0, &grant));
  board.Release(b, 0, grant);
  ASSERT_TRUE(CanTake(board, a, 0, &grant));
  const int32_t c = Start(board, "c", {0, 1}, 2);
  EXPECT_GT(board.first_turn(c), grant.turn);
  board.Release(a, 0, grant);
  // The second device, which has given no turn at all, gives them in the same order.
  const std::string first = "aba" + OrderOn(board, {{a, 0}, {b, 0}, {c, 0}});
  EXPECT_EQ(OrderOn(board, {{a, 1}, {b, 1}, {c, 1}}), first);
  EXPECT_EQ(first,
            "abab"
            "c"
            "abcab");
}

TEST(Board, TheDeadAreLeftOutAndTheOthersKeepTheirOrder) {
  Board board = MakeBoard(TurnOrder::kRotation, {0, 0});
  const int32_t a = Start(board, "a", {0, 1}, 3), b = Start(board, "b", {0, 1}, 3),
                c = Start(board, "c", {0, 1}, 3);
  Grant grant;
  ASSERT_TRUE(CanTake(board, a, 0, &grant));
  board.Release(a, 0, grant);
  ASSERT_TRUE(CanTake(board, b, 0, &grant));
  board.MarkDead(b, "was killed");
  EXPECT_FALSE(board.Release(b, 0, grant)) << "what it held is no longer its own";
  EXPECT_EQ(OrderOn(board, {{a, 0}, {b, 0}, {c, 0}}), "cacac");
  EXPECT_EQ(OrderOn(board, {{a, 1}, {b, 1}, {c, 1}}), "acacac");
  EXPECT_FALSE(board.Acquire(b, 0).ok());
  EXPECT_EQ(board.Acquire(b, 0).error().kind, ErrorKind::kRunFailed);
  EXPECT_EQ(board.why(b), "was killed");
}

TEST(Board, ArrivalServesWhoeverAskedFirst) {
  Board board = MakeBoard(TurnOrder::kArrival, {0});
  const int32_t a = Start(board, "a", {0}), b = Start(board, "b", {0}), c = Start(board, "c", {0});
  Grant grant;
  ASSERT_TRUE(CanTake(board, b, 0, &grant));
  EXPECT_FALSE(CanTake(board, c, 0));
  EXPECT_FALSE(CanTake(board, a, 0));
  EXPECT_FALSE(CanTake(board, b, 0));
  board.Release(b, 0, grant);
  EXPECT_FALSE(CanTake(board, a, 0)) << "c asked before";
  board.MarkDead(c, "gone");
  EXPECT_TRUE(CanTake(board, a, 0, &grant));
  board.Release(a, 0, grant);
  EXPECT_TRUE(CanTake(board, b, 0));
}

TEST(Board, TheNetworkServesTurnsInOrder) {
  FakeClock clock;
  Board board = Board::Create({TurnOrder::kRotation, {0, 0}}, clock).value();
  const int32_t a = Start(board, "a", {0, 1}), b = Start(board, "b", {0, 1});
  board.TakePlace(a, 0, 0);
  board.TakePlace(b, 0, 1);
  board.TakePlace(a, 1, 0);  // the same place: both ranks are of one exchange
  board.TakePlace(b, 1, 1);
  ASSERT_TRUE(board.AwaitPlace(a, 0, 0).ok());
  ASSERT_TRUE(board.AwaitPlace(a, 1, 0).ok());
  std::atomic<bool> served{false};
  std::thread waits = clock.Start([&] {
    EXPECT_TRUE(board.AwaitPlace(b, 0, 1).ok());
    served = true;
  });
  board.LeavePlace(a, 0, 0);
  clock.SleepFor(std::chrono::seconds(10));
  EXPECT_FALSE(served) << "the other rank of a is still at it";
  board.LeavePlace(a, 1, 0);
  clock.SleepFor(milliseconds(30));
  EXPECT_TRUE(served);
  waits.join();
}

TEST(Board, PlacesOfTheDeadAreSkipped) {
  Board board = MakeBoard(TurnOrder::kRotation, {0});
  const int32_t a = Start(board, "a", {0}), b = Start(board, "b", {0});
  board.TakePlace(a, 0, 0);
  board.TakePlace(b, 0, 1);
  board.MarkDead(a, "gone");
  EXPECT_TRUE(board.AwaitPlace(b, 0, 1).ok());
}

TEST(Board, FairUseIsSlowerInCompany) {
  FakeClock clock;
  Board board = Board::Create({TurnOrder::kRotation, {0}}, clock).value();
  const int32_t a = Start(board, "a", {0}), b = Start(board, "b", {0});
  const int64_t start = board.Now();
  board.BeginFairUse(b, 0, 0, 30e6);
  board.BeginFairUse(a, 0, 0, 60e6);
  int64_t b_ended = 0;
  std::thread other = clock.Start([&] {
    EXPECT_TRUE(board.AwaitFairUse(b, 0, 0).ok());
    b_ended = board.Now();
  });
  EXPECT_TRUE(board.AwaitFairUse(a, 0, 0).ok());
  clock.WithoutMe([&] { other.join(); });
  // 30 ms at half the speed; in all 90 ms of work went through one device.
  EXPECT_NEAR(static_cast<double>(b_ended - start), 60e6, 10);
  EXPECT_NEAR(static_cast<double>(board.Now() - start), 90e6, 10);
}

// --- Processes that die
// ---------------------------------------------------------------------------

pid_t Fork(const std::function<void()>& life) {
  const pid_t child = fork();
  if (child != 0) return child;
  life();
  _exit(0);
}

void Kill(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Memory that forked processes write to.
template <class T>
T* Shared() {
  void* memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) T();
}

TEST(BoardProcesses, AKilledHolderIsNoticedByThoseWhoWait) {
  Board board = MakeBoard(TurnOrder::kRotation, {0});
  const int32_t a = board.AddJob({.name = "a", .devices = {0}, .turns = 10}).value();
  const int32_t b = board.AddJob({.name = "b", .devices = {0}, .turns = 10}).value();
  board.Enter(b, 0);
  const pid_t child = Fork([&] {
    board.Enter(a, 0);
    if (!board.AwaitStart(a).ok() || !board.Acquire(a, 0).ok()) return;
    pause();
  });
  while (!board.IsReady(a)) std::this_thread::sleep_for(milliseconds(1));
  board.Activate(std::vector<int32_t>{a, b});
  while (board.owner(0) != a) std::this_thread::sleep_for(milliseconds(1));
  kill(child, SIGKILL);  // and nobody waits for it: it stays a zombie
  EXPECT_TRUE(board.Acquire(b, 0).ok());
  EXPECT_EQ(board.state(a), JobState::kDead);
  EXPECT_NE(board.why(a).find("rank 0"), std::string::npos);
  waitpid(child, nullptr, 0);
}

// Jobs of two ranks on two devices, in step through the board alone: a turn on both devices, then
// the network. Processes of one job are killed at a random moment, often inside an edit; the other
// jobs must finish all their turns.
TEST(BoardProcesses, SurvivorsFinishWhoeverIsKilledAndWhen) {
  constexpr int kRounds = 40, kJobs = 3, kTurns = 150;
  struct Counts {
    std::array<std::atomic<int>, kJobs> done{};
  };
  unsigned random = 12345;
  for (int round = 0; round < kRounds; ++round) {
    Board board = MakeBoard(round % 2 == 0 ? TurnOrder::kRotation : TurnOrder::kDeficit, {0, 1});
    Counts* counts = Shared<Counts>();
    std::vector<std::vector<pid_t>> pids(kJobs);
    std::vector<int32_t> jobs;
    for (int k = 0; k < kJobs; ++k) {
      const int32_t job = board
                              .AddJob({.name = std::string(1, static_cast<char>('a' + k)),
                                       .devices = {0, 1},
                                       .turns = kTurns,
                                       .times = {Seconds{1.0 + k}, {}, {}}})
                              .value();
      jobs.push_back(job);
      for (int32_t rank = 0; rank < 2; ++rank) {
        pids[static_cast<size_t>(k)].push_back(Fork([&board, counts, job, rank, k] {
          board.Enter(job, rank);
          if (!board.AwaitStart(job).ok()) return;
          for (int turn = 0; turn < kTurns; ++turn) {
            const Result<Grant> grant = board.Acquire(job, rank);
            if (!grant.ok()) return;
            board.TakePlace(job, rank, grant.value().turn);
            board.Release(job, rank, grant.value());
            if (!board.AwaitPlace(job, rank, grant.value().turn).ok()) return;
            board.LeavePlace(job, rank, grant.value().turn);
          }
          ++counts->done[static_cast<size_t>(k)];
          board.Leave(job, rank);
        }));
      }
    }
    for (const int32_t job : jobs) {
      while (!board.IsReady(job)) std::this_thread::sleep_for(milliseconds(1));
    }
    board.Activate(jobs);
    random = random * 1664525 + 1013904223;
    const auto victim = static_cast<size_t>(random >> 16) % kJobs;
    random = random * 1664525 + 1013904223;
    std::this_thread::sleep_for(std::chrono::microseconds((random >> 16) % 8000));
    Kill(pids[victim][random >> 31]);
    for (size_t k = 0; k < kJobs; ++k) {
      for (size_t rank = 0; rank < 2; ++rank) {
        if (k == victim && rank == random >> 31) continue;
        int status = 0;
        waitpid(pids[k][rank], &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "job " << k;
      }
      if (k != victim) {
        EXPECT_EQ(counts->done[k], 2) << "job " << k << " in round " << round;
      }
    }
    munmap(counts, sizeof(Counts));
  }
}

}  // namespace
}  // namespace heddle
