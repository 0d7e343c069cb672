// The JSON keys that tools rely on.

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "run_heddle.h"

namespace heddle {
namespace {

Json JsonOf(const std::string& arguments) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const Result<Json> json = ParseJson(ran.out, arguments);
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? json.value() : Json();
}

void ExpectKeys(const Json& json, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(json.contains(key)) << key;
}

std::string PlanArguments(const std::string& strategy) {
  return "--model 'tiny-gpt?layers=6' --batch 32 --cluster " + ClusterFile("mixed4") +
         (strategy.empty() ? "" : " --strategy " + strategy);
}

const std::vector<std::string> kPlanKeys = {"schema",
                                            "strategy",
                                            "iteration_seconds",
                                            "schedule_bound_seconds",
                                            "lower_bound_seconds",
                                            "planning_seconds",
                                            "devices_used",
                                            "memory"};

TEST(JsonKeysTest, Plan) {
  const Json json = JsonOf("plan --json " + PlanArguments("1f1b"));
  ExpectKeys(json, kPlanKeys);
  EXPECT_EQ(json["schema"], "heddle.plan/1");
  EXPECT_EQ(json["devices_used"], 4);
  ASSERT_EQ(json["memory"].size(), 4U);
  ExpectKeys(json["memory"][0], {"device", "peak_bytes", "capacity_bytes"});
}

TEST(JsonKeysTest, Simulate) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan " + PlanArguments("gpipe") + " -o " + plan.path()).exit_code, 0);
  const TemporaryFile trace;
  const Json json = JsonOf("simulate --json " + plan.path() + " --trace " + trace.path());
  ExpectKeys(json, kPlanKeys);
  ExpectKeys(json, {"events", "simulate_seconds", "devices"});
  ExpectKeys(json["devices"][0], {"device", "busy_seconds", "idle_seconds"});
  const Json planned = ParseJson(ReadFile(plan.path()).value(), "plan").value();
  EXPECT_EQ(json["iteration_seconds"], planned["iteration_seconds"]);
  const Json traced = ParseJson(ReadFile(trace.path()).value(), "trace").value();
  EXPECT_GT(traced["traceEvents"].size(), 100U);
}

TEST(JsonKeysTest, CompareIsSortedWithInfeasibleLast) {
  const Json json = JsonOf(
      "compare --json --model 'gpt?layers=48&hidden=1600&heads=25&seq=512' "
      "--batch 64 --cluster " +
      ClusterFile("mixed4"));
  double last = 0;
  bool infeasible = false;
  for (const Json& row : json["rows"]) {
    ExpectKeys(row, {"strategy", "feasible", "status", "iteration_seconds", "planning_seconds",
                     "peak_bytes", "reason"});
    if (!row["feasible"].get<bool>()) {
      infeasible = true;
      EXPECT_NE(row["reason"], "");
      continue;
    }
    EXPECT_FALSE(infeasible);
    EXPECT_GE(row["iteration_seconds"].get<double>(), last);
    last = row["iteration_seconds"].get<double>();
  }
  EXPECT_TRUE(infeasible);  // data parallelism does not fit
  EXPECT_GT(last, 0);       // pipelines do
}

TEST(JsonKeysTest, Models) {
  const Json json = JsonOf("models --json");
  bool found = false;
  for (const Json& row : json["rows"]) {
    ExpectKeys(row, {"name", "parameters", "layers", "ops"});
    if (row["name"] == "gpt") {
      found = true;
      EXPECT_EQ(row["parameters"], 124439808);
    }
  }
  EXPECT_TRUE(found);
}

TEST(JsonKeysTest, ExplainCheckLowerAndDemo) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan " + PlanArguments("interleaved") + " -o " + plan.path()).exit_code, 0);
  ExpectKeys(JsonOf("explain --json " + plan.path()),
             {"schema", "bottleneck", "devices", "memory"});
  EXPECT_EQ(JsonOf("check --json " + plan.path())["ok"], true);
  EXPECT_GT(JsonOf("lower --json " + plan.path())["instructions"].get<int>(), 10);
  ExpectKeys(JsonOf("demo --json"), kPlanKeys);
}

TEST(JsonKeysTest, LinksOfThePlanAreThoseOfItsFigures) {
  const TemporaryFile plan;
  const std::string arguments = PlanArguments("1f1b") + " --links channels -o " + plan.path();
  ASSERT_EQ(RunHeddle("plan " + arguments).exit_code, 0);
  const Json planned = ParseJson(ReadFile(plan.path()).value(), "plan").value();
  EXPECT_EQ(JsonOf("simulate --json " + plan.path())["iteration_seconds"],
            planned["iteration_seconds"]);
  EXPECT_EQ(JsonOf("explain --json " + plan.path())["iteration_seconds"],
            planned["iteration_seconds"]);
}

TEST(JsonKeysTest, OneObjectAlsoOnFailure) {
  const Ran ran = RunHeddle(
      "compare --json --model 'gpt?layers=96&hidden=4096&heads=32' --batch 8 "
      "--cluster " +
      ClusterFile("laptop"));
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_EQ(ParseJson(ran.out, "compare").value()["schema"], "heddle.compare/1");
}

TEST(JsonKeysTest, ErrorsAreJsonToo) {
  const Ran ran = RunHeddle("plan --json --model nope --cluster " + ClusterFile("mixed4"));
  EXPECT_EQ(ran.exit_code, 4);
  const Json json = ParseJson(ran.out, "error").value();
  ExpectKeys(json, {"schema", "exit_code", "error", "hint"});
}

}  // namespace
}  // namespace heddle
