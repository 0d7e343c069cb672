// Fifty random cases through all planners, and thirty through those of pipelines. `./dev bench
// monkey` has as many as there is time for.
#include <gtest/gtest.h>

#include <limits>

#include "choose/monkey_check.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

constexpr double kNoBudget = std::numeric_limits<double>::infinity();

// Whatever is found, with the cluster and the profile: the command alone needs their files.
std::string TextOf(const MonkeyCase& one, const MonkeyFinding& finding) {
  return finding.what + "\n" + finding.command + "\n" + one.cluster + one.profile;
}

int PlansOf(const MonkeyOutcome& outcome) {
  int plans = 0;
  for (const Surveyed& row : outcome.rows) plans += row.status == SurveyStatus::kOk ? 1 : 0;
  return plans;
}

void ExpectNoFindings(int cases, uint64_t seed, MonkeySize size, const MonkeyOptions& options,
                      int least_plans) {
  const ScratchFolder folder;
  int plans = 0;
  for (int k = 0; k < cases; ++k) {
    const MonkeyCase one = MakeMonkeyCase(seed, k, size, folder.path());
    const Result<MonkeyOutcome> outcome = CheckMonkeyCase(one, options);
    ASSERT_TRUE(outcome.ok()) << outcome.error().ToString() << one.cluster;
    plans += PlansOf(outcome.value());
    for (const MonkeyFinding& finding : outcome.value().findings)
      ADD_FAILURE() << TextOf(one, finding);
  }
  EXPECT_GT(plans, least_plans);
}

TEST(MonkeyTest, NothingIsWrongWithFiftyCases) {
  MonkeyOptions options;
  options.budget_seconds = kNoBudget;
  ExpectNoFindings(50, 1, MonkeySize::kSmall, options, 400);
}

TEST(MonkeyTest, PipelineIsBehindNobodyOnRandomProfiles) {
  MonkeyOptions options;
  options.budget_seconds = kNoBudget;
  options.planners = {FindPlanner("pipeline").value()};
  for (const std::string& name : FamilyOf("pipeline")) {
    options.planners.push_back(FindPlanner(name).value());
  }
  ExpectNoFindings(30, 2, MonkeySize::kSmallProfiles, options, 150);
}

// A slow device without a sample of its stage was counted among those that sum its gradients, and
// the algorithm chosen for them did not exist for the others.
TEST(MonkeyTest, WhoHasNoSampleSumsNothing) {
  const ScratchFolder folder;
  MonkeyOptions options;
  options.budget_seconds = kNoBudget;
  options.planners = {FindPlanner("pipeline").value()};
  const MonkeyCase one = MakeMonkeyCase(31, 22, MonkeySize::kSmall, folder.path());
  const Result<MonkeyOutcome> outcome = CheckMonkeyCase(one, options);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().rows[0].status, SurveyStatus::kOk);
}

// DAPPLE's plan with six microbatches was ahead: as long as plans of others led, only powers of two
// were looked at.
TEST(MonkeyTest, EarlierSystemsHaveNumbersBetweenPowersOfTwo) {
  const ScratchFolder folder;
  MonkeyOptions options;
  options.budget_seconds = kNoBudget;
  options.planners = {FindPlanner("pipeline").value(), FindPlanner("dapple").value()};
  const MonkeyCase one = MakeMonkeyCase(101, 116, MonkeySize::kSmall, folder.path());
  const Result<MonkeyOutcome> outcome = CheckMonkeyCase(one, options);
  ASSERT_TRUE(outcome.ok());
  for (const MonkeyFinding& finding : outcome.value().findings) ADD_FAILURE() << finding.what;
  EXPECT_EQ(PlansOf(outcome.value()), 2);
}

// The brute force sees what fits: a model that needs two devices, and one that needs more than all.
TEST(MonkeyTest, BruteForceKnowsWhatFits) {
  const auto fits = [](const std::string& memory) {
    const Cluster cluster = ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.d]
flops = "1 TFLOP/s"
memory = ")" + memory + R"("
memory_bandwidth = "100 GB/s"
[[node]]
name = "n"
devices = [{ type = "d", count = 2 }]
link = { bandwidth = "1 GB/s" }
)",
                                             "two.toml")
                                .value();
    PlanRequest options;
    options.model = "tiny-mlp";
    options.batch = 4;
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    return SomePipelineFits(planning);
  };
  EXPECT_TRUE(fits("1 MB"));
  EXPECT_TRUE(fits("120 kB"));
  EXPECT_FALSE(fits("20 kB"));
}

TEST(MonkeyTest, CasesAreTheSameEveryTime) {
  const MonkeyCase one = MakeMonkeyCase(3, 17, MonkeySize::kAny, "f");
  const MonkeyCase again = MakeMonkeyCase(3, 17, MonkeySize::kAny, "f");
  EXPECT_EQ(one.cluster + one.profile + one.Command("plan"),
            again.cluster + again.profile + again.Command("plan"));
  EXPECT_NE(one.cluster, MakeMonkeyCase(3, 18, MonkeySize::kAny, "f").cluster);
}

}  // namespace
}  // namespace heddle
