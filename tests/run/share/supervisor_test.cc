#include "run/share/supervisor.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace heddle {
namespace {

// A job of one rank, which is the process that leads it.
Status Live(Board board, int32_t job) {
  board.Enter(job, 0);
  HEDDLE_RETURN_IF_ERROR(board.AwaitStart(job));
  board.Leave(job, 0);
  return Ok();
}

// The promise, as what it is made of: a stopped rank is noticed and, if its job says nothing by
// then, ended within 2 s. What the machine adds is not the supervisor's.
TEST(Supervisor, AStoppedRankHoldsTheOthersUpForLessThanTwoSeconds) {
  const Supervisor::Options options;
  EXPECT_LE(options.silence + options.grace, std::chrono::seconds(2));
}

TEST(Supervisor, WhoIsNeverReadyDoesNotHoldUpTheOthers) {
  Board board = Board::Create({TurnOrder::kRotation, {0}}).value();
  Supervisor::Options options;
  options.readiness = std::chrono::seconds(0);
  options.grace = std::chrono::milliseconds(0);
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
