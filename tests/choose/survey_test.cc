// Several planners within one budget of time. The clock is the test's own.
#include "choose/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/places.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double now = 0;
double NowSeconds() { return now; }

Planning TinyPlanning() {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  PlanRequest options;
  options.model = "tiny-mlp";
  options.batch = 16;
  return Planning::Make(options, cluster, nullptr).value();
}

Result<Plan> PlanAtOnce(const Planning& planning) {
  Plan plan = planning.Blank("quick", "");
  plan.estimate.iteration_seconds = 2;
  return plan;
}
Result<Plan> FailInside(const Planning&) {
  return Error{ErrorKind::kInternal, "program", "layer missing", ""};
}
Result<Plan> FitNowhere(const Planning&) { return Infeasible("large", "nothing fits", ""); }
// Until its own deadline, without result.
Result<Plan> SearchInVain(const Planning& planning) {
  while (!planning.deadline.passed()) now += 0.5;
  return OutOfTime("slow");
}

TEST(SurveyTest, OneRowEachWhateverHappens) {
  now = 0;
  const std::vector<Planner> planners = {
      {"broken", "", &FailInside}, {"large", "", &FitNowhere}, {"quick", "", &PlanAtOnce}};
  const Planning planning = TinyPlanning();
  Survey survey(planning, {&planners[0], &planners[1], &planners[2]}, Deadline());
  const std::vector<Surveyed> rows = survey.Run({});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(NameOf(rows[0].status), "failed");
  EXPECT_THAT(rows[0].error->what, HasSubstr("layer missing"));
  EXPECT_EQ(NameOf(rows[1].status), "infeasible");
  EXPECT_EQ(NameOf(rows[2].status), "ok");
  EXPECT_EQ(rows[2].plan->estimate.iteration_seconds, 2);
}

TEST(SurveyTest, QuickOnesFirstAndASlowOneLeavesTheOthersTheirTime) {
  now = 0;
  const std::vector<Planner> planners = {{"slow", "", &SearchInVain, PlannerPace::kSteady},
                                         {"last", "", &PlanAtOnce, PlannerPace::kLong},
                                         {"quick", "", &PlanAtOnce, PlannerPace::kQuick}};
  const Planning planning = TinyPlanning();
  Survey survey(planning, {&planners[0], &planners[1], &planners[2]},
                Deadline::In(20, &NowSeconds));
  std::vector<std::string> started, ended;
  const std::vector<Surveyed> rows =
      survey.Run({[&](const Planner& planner) { started.push_back(planner.name); },
                  [&](const Surveyed& row) { ended.push_back(row.planner->name); }});
  // The slow one has half of what is left, and all of the rest once the others are done.
  EXPECT_THAT(started, ElementsAre("quick", "slow", "last", "slow"));
  EXPECT_THAT(ended, ElementsAre("quick", "last", "slow"));
  EXPECT_EQ(NameOf(rows[0].status), "not finished");
  EXPECT_TRUE(rows[1].plan && rows[2].plan);
  EXPECT_EQ(now, 20);
}

TEST(SurveyTest, NobodyStartsAfterTheDeadline) {
  now = 0;
  const std::vector<Planner> planners = {{"quick", "", &PlanAtOnce}};
  const Planning planning = TinyPlanning();
  Survey survey(planning, {&planners[0]}, Deadline::In(0, &NowSeconds));
  const std::vector<Surveyed> rows = survey.Run({});
  EXPECT_EQ(NameOf(rows[0].status), "not finished");
  EXPECT_THAT(rows[0].error->ToString(), HasSubstr("--budget"));
}

TEST(FindPlannerTest, KnowsWhatOthersCallThem) {
  for (const auto& [also, name] : std::vector<std::pair<std::string, std::string>>{
           {"ddp", "dp"}, {"fsdp", "zero"}, {"tp", "tensor-parallel"}, {"zb-h1", "zb-h1"}}) {
    EXPECT_EQ(FindPlanner(also).value()->name, name);
  }
  const Result<const Planner*> unknown = FindPlanner("pipline");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(unknown.error().hint, HasSubstr("\"pipeline\""));
}

// However early it passes, a planner ends with a plan or with the word that it did not finish. The
// deadline is a number of questions to the clock.
TEST(DeadlineTest, EveryPlannerKeepsIt) {
  for (const Planner& planner : Planners()) {
    int cut_short = 0;
    for (const int64_t questions : {0, 1, 2, 4, 8, 16, 32, 64, 256}) {
      Planning planning = TinyPlanning();
      auto asked = std::make_shared<std::atomic<int64_t>>(0);
      planning.deadline = Deadline::In(static_cast<double>(questions),
                                       [asked] { return static_cast<double>((*asked)++); });
      const Result<Plan> plan = MakePlan(planner, planning);
      if (plan.ok()) {
        EXPECT_TRUE(ValidatePlan(plan.value(), planning.chain.size(), "plan").ok());
        for (const std::string& note : plan.value().search.notes) cut_short += note == kCutShort;
        continue;
      }
      EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible) << plan.error().ToString();
      cut_short += plan.error().what == OutOfTime("").what;
    }
    const bool has_none = planner.name == "expert-parallel";  // and says so without a search
    EXPECT_GT(cut_short, has_none ? -1 : 0) << planner.name;
  }
}

}  // namespace
}  // namespace heddle
