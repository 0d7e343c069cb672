// Best under a deadline, with a clock that goes on only when it is asked.
#include <gtest/gtest.h>

#include "plan/planning.h"
#include "plan/spmd/spmd_planner.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

struct CountingClock {
  double now = 0;
  double pace = 1;  // seconds between two questions
};

class BestTest : public testing::Test {
 protected:
  static Planning PlanningFor(int64_t batch) {
    static const Cluster cluster = ClusterOf({.nodes = 2, .devices = 2});
    PlanRequest options;
    options.model = "tiny-mlp";
    options.batch = batch;
    return Planning::Make(options, cluster, nullptr).value();
  }

  Planning TimedPlanning(int64_t batch, double seconds) {
    Planning planning = PlanningFor(batch);
    planning.deadline = Deadline::In(seconds, [this] { return clock_.now += clock_.pace; });
    return planning;
  }

  static Plan PlanOf(const Planning& planning, int64_t microbatches) {
    Plan plan = planning.Blank("spmd", "");
    plan.microbatches = microbatches;
    const Planning part = PlanningFor(planning.request.batch / microbatches);
    plan.spmd = PlanSpmd(part, {.microbatches = microbatches}).value()[0].plan;
    return plan;
  }

  CountingClock clock_;
};

TEST_F(BestTest, StartsNothingThatWouldEndAfterTheDeadline) {
  const Planning planning = TimedPlanning(32, 100);
  const Plan plan = PlanOf(planning, 1);
  clock_.pace = 5;  // between the two questions about an evaluation, so it takes as much
  Best best(planning);
  int64_t looked_at = 0;
  for (int k = 0; k < 40; ++k) {
    const int64_t before = best.tried();
    ASSERT_TRUE(best.Try(plan).ok());
    looked_at += best.tried() > before ? 1 : 0;
    if (best.tried() == before) break;
  }
  clock_.pace = 0;
  EXPECT_GT(looked_at, 1);
  EXPECT_LT(looked_at, 7);  // three questions each
  EXPECT_GT(planning.deadline.left(), 0);
  const Result<Plan> taken = std::move(best).Take();
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken.value().search.notes, std::vector<std::string>{kCutShort});
}

// A plan of 32 microbatches is judged by four, and takes eight times as long to check in the end.
TEST_F(BestTest, KeepsTimeToCheckTheBest) {
  const Planning planning = TimedPlanning(64, 1000);
  const Plan plan = PlanOf(planning, 32);
  clock_.pace = 5;
  Best best(planning);
  ASSERT_TRUE(best.Try(plan).ok());
  clock_.pace = 0;
  const double reserve = planning.deadline.left() - best.deadline().left();
  EXPECT_NEAR(reserve, 8 * 5, 1e-9);
  clock_.now += planning.deadline.left() - 39;
  EXPECT_TRUE(best.late());
  EXPECT_FALSE(planning.deadline.passed());
}

TEST_F(BestTest, IsNeverLateWithoutADeadline) {
  const Planning planning = PlanningFor(32);
  Best best(planning);
  ASSERT_TRUE(best.Try(PlanOf(planning, 1)).ok());
  EXPECT_FALSE(best.late());
  EXPECT_TRUE(best.deadline().never());
}

}  // namespace
}  // namespace heddle
