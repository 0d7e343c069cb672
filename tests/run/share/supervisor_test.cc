#include "run/share/supervisor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>

#include "support/fake_clock.h"
#include "support/fake_process.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A job of one rank, which is the process that leads it.
Status Live(Board board, int32_t job) {
  board.Enter(job, 0);
  HEDDLE_RETURN_IF_ERROR(board.AwaitStart(job));
  board.Leave(job, 0);
  return Ok();
}

// Jobs of one rank each, whose processes are none, in time that passes when the supervisor waits.
class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    options_.clock = &clock_;
    options_.start = [this](const std::function<int()>&,
                            const std::string&) -> Result<std::unique_ptr<Process>> {
      return processes_.Make();
    };
    clock_.AfterEachJump([this] {
      for (const int32_t job : beating_) board_.Beat(job, 0);
      happens_(clock_.Now() - start_);
    });
  }

  int32_t Add(Supervisor& supervisor, const std::string& name) {
    const int32_t job =
        board_.AddJob({.name = name, .devices = {0}, .turns = 9, .lease = 86400}).value();
    EXPECT_TRUE(supervisor.Start({name, job, [] { return Ok(); }}).ok());
    return job;
  }
  void Enters(int32_t job) {
    board_.Enter(job, 0);
    beating_.insert(job);
  }
  void EndsWell(int32_t job) {
    if (board_.state(job) != JobState::kRunning) return;
    board_.Leave(job, 0);
    beating_.erase(job);
    processes_[static_cast<size_t>(job)].end = ProcessExit{};
  }

  FakeClock clock_;
  Board board_ = Board::Create({TurnOrder::kRotation, {0}}, clock_).value();
  FakeProcesses processes_;
  Supervisor::Options options_;
  std::set<int32_t> beating_;
  std::function<void(Clock::Duration)> happens_ = [](Clock::Duration) {};
  Clock::Time start_ = clock_.Now();
};

// A stopped rank is noticed and, if its job says nothing by then, ended within 2 s.
TEST_F(SupervisorTest, AStoppedRankHoldsTheOthersUpForTwoSeconds) {
  Supervisor supervisor(board_, options_);
  const int32_t a = Add(supervisor, "a"), b = Add(supervisor, "b");
  Enters(a);
  Enters(b);
  Clock::Duration struck{}, killed{};
  happens_ = [&](Clock::Duration now) {
    if (now >= seconds(10)) beating_.erase(a);
    if (now >= seconds(30)) EndsWell(b);
    if (struck == seconds(0) && board_.state(a) == JobState::kDead) struck = now;
    if (killed == seconds(0) && processes_[0].killed) killed = now;
  };
  const std::vector<JobOutcome> outcomes = supervisor.Watch();
  EXPECT_FALSE(outcomes[0].well);
  EXPECT_EQ(outcomes[0].why, "rank 0 does not answer: it is stopped or hangs");
  EXPECT_TRUE(outcomes[1].well) << outcomes[1].why;
  EXPECT_NEAR(SecondsIn(struck), 11.5, 0.03);
  EXPECT_NEAR(SecondsIn(killed), 12.0, 0.05);
}

TEST_F(SupervisorTest, WhoIsNeverReadyDoesNotHoldUpTheOthers) {
  Supervisor supervisor(board_, options_);
  Add(supervisor, "hangs");
  const int32_t well = Add(supervisor, "well");
  happens_ = [&](Clock::Duration now) {
    if (now >= seconds(5) && beating_.empty()) Enters(well);
    if (now > seconds(200)) EndsWell(well);
  };
  const std::vector<JobOutcome> outcomes = supervisor.Watch();
  EXPECT_FALSE(outcomes[0].well);
  EXPECT_EQ(outcomes[0].why, "was not ready 120 s after another job");
  EXPECT_TRUE(outcomes[1].well) << outcomes[1].why;
  EXPECT_NEAR(static_cast<double>(outcomes[1].began - NanosecondsOf(start_)), 125e9, 0.2e9);
}

TEST_F(SupervisorTest, AStruckJobThatEndsByItselfIsNotKilled) {
  Supervisor supervisor(board_, options_);
  const int32_t job = Add(supervisor, "a");
  Enters(job);
  happens_ = [&](Clock::Duration now) {
    if (now >= seconds(1)) board_.MarkDead(job, "kept the network");
    if (now >= milliseconds(1400)) processes_[0].end = ProcessExit{.code = 5};
  };
  const std::vector<JobOutcome> outcomes = supervisor.Watch();
  EXPECT_EQ(outcomes[0].why, "kept the network");
  EXPECT_FALSE(processes_[0].killed);
}

TEST_F(SupervisorTest, AKilledLeaderIsNamedWithItsSignal) {
  Supervisor supervisor(board_, options_);
  Enters(Add(supervisor, "a"));
  happens_ = [&](Clock::Duration now) {
    if (now >= seconds(1)) processes_[0].end = ProcessExit{.signal = 9};
  };
  EXPECT_EQ(supervisor.Watch()[0].why, "its first process was killed by signal 9 (Killed)");
}

// Newcomers are asked for ten times a second; nobody is left for a while, and then one comes.
TEST_F(SupervisorTest, JobsMayComeLater) {
  int asked = 0, later = -1;
  std::optional<Supervisor> supervisor;
  options_.newcomers = [&] {
    ++asked;
    if (clock_.Now() - start_ < seconds(60)) return true;
    if (later < 0) {
      later = Add(*supervisor, "later");
      Enters(later);
    }
    return false;
  };
  supervisor.emplace(board_, options_);
  const int32_t first = Add(*supervisor, "first");
  Enters(first);
  happens_ = [&](Clock::Duration now) {
    if (now >= seconds(3)) EndsWell(first);
    if (now >= seconds(65)) EndsWell(later);
  };
  const std::vector<JobOutcome> outcomes = supervisor->Watch();
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_TRUE(outcomes[0].well && outcomes[1].well) << outcomes[1].why;
  EXPECT_NEAR(asked, 65 / 0.11, 3) << "looking every 10 ms, until all have ended";
  EXPECT_GE(outcomes[1].began - NanosecondsOf(start_), 60'000'000'000);
}

// And with real processes.
TEST(Supervisor, RunsItsJobsAndEndsThoseThatAreStruck) {
  Board board = Board::Create({TurnOrder::kRotation, {0}}).value();
  Supervisor::Options options;
  options.readiness = seconds(0);
  options.grace = milliseconds(0);
  Supervisor supervisor(board, options);
  for (const char* name : {"hangs", "well"}) {
    const int32_t job = board.AddJob({.name = name, .devices = {0}, .turns = 1}).value();
    ASSERT_TRUE(supervisor
                    .Start({name, job,
                            [board, job, hangs = job == 0]() -> Status {
                              while (hangs) pause();
                              return Live(board, job);
                            }})
                    .ok());
  }
  const std::vector<JobOutcome> outcomes = supervisor.Watch();
  EXPECT_FALSE(outcomes[0].well);
  EXPECT_EQ(outcomes[0].why, "was not ready 0 s after another job");
  EXPECT_TRUE(outcomes[1].well) << outcomes[1].why;
}

}  // namespace
}  // namespace heddle
