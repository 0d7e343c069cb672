// The JSON keys that tools rely on.

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "run_heddle.h"
#include "support/places.h"

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
                                            "samples_per_second_per_device",
                                            "tokens_per_second_per_device",
                                            "mfu",
                                            "hfu",
                                            "memory"};

TEST(JsonKeysTest, Plan) {
  const Json json = JsonOf("plan --json " + PlanArguments("1f1b"));
  ExpectKeys(json, kPlanKeys);
  EXPECT_EQ(json["schema"], "heddle.plan/2");
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
      "compare --json --model 'gpt?layers=48&hidden=1600&heads=25&seq=512' --strategies "
      "dp,local,gpipe,pipeline,hetpipe,expert-parallel,1f1b --batch 64 --cluster " +
      ClusterFile("mixed4"));
  double last = 0;
  bool infeasible = false;
  for (const Json& row : json["rows"]) {
    ExpectKeys(row, {"strategy", "feasible", "status", "iteration_seconds", "planning_seconds",
                     "peak_bytes", "devices_used", "microbatches", "samples_per_second_per_device",
                     "tokens_per_second_per_device", "mfu", "hfu", "certificate", "reason"});
    EXPECT_EQ(row["mfu"].is_null(), !row["feasible"].get<bool>());
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

TEST(JsonKeysTest, ModelsOfAConfiguration) {
  const std::string configs = "models --json " + SourceDir() + "/tests/model/configs/";
  const Json llama = JsonOf(configs + "llama-2-7b.json")["rows"][0];
  ExpectKeys(llama, {"name", "family", "architecture", "parameters", "layers", "ops",
                     "trained_parameters", "unsupported", "parts"});
  EXPECT_EQ(llama["family"], "llama");
  EXPECT_EQ(llama["parameters"], 6738415616);
  EXPECT_TRUE(llama["ops"].is_null());
  EXPECT_EQ(llama["unsupported"][0],
            Json({{"op", "rms_norm"}, {"count", 32}, {"where", "model.layers.*.input_layernorm"}}));
  const Json vit = JsonOf(configs + "vit-base.json")["rows"][0];
  EXPECT_EQ(vit["parameters"], 86567656);
  EXPECT_EQ(vit["trained_parameters"], 86567656);
  EXPECT_GT(vit["ops"].get<int>(), 500);
  EXPECT_EQ(vit["unsupported"].size(), 0u);
}

TEST(JsonKeysTest, Devices) {
  const Json json = JsonOf("devices --json");
  ExpectKeys(json, {"schema", "assumed_part", "rows", "links"});
  EXPECT_GE(json["rows"].size(), 25u);
  for (const Json& row : json["rows"]) {
    ExpectKeys(row,
               {"name", "memory_bytes", "memory_bandwidth", "flops", "reached", "used", "source"});
    EXPECT_TRUE(row["flops"].contains("fp32")) << row["name"];
  }
  const Json one = JsonOf("devices a100-80gb --json");
  ASSERT_EQ(one["rows"].size(), 1u);
  EXPECT_EQ(one["rows"][0]["memory_bytes"], int64_t{80} << 30);
  EXPECT_EQ(one["rows"][0]["flops"]["bf16"], 312e12);
  EXPECT_DOUBLE_EQ(one["rows"][0]["reached"]["bf16"].get<double>(), 267.9e12);
  EXPECT_EQ(JsonOf("devices nvlink3 --json")["links"][0]["bandwidth"], 300e9);
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

// What `plan` says of the throughput is what the others say; and a plan with it is still a plan.
TEST(JsonKeysTest, ThroughputIsTheSameEverywhere) {
  const TemporaryFile plan;
  const Ran planned = RunHeddle("plan --json " + PlanArguments("1f1b") + " > " + plan.path());
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const Json json = ParseJson(ReadFile(plan.path()).value(), "plan").value();
  const Json simulated = JsonOf("simulate --json " + plan.path());
  const Json explained = JsonOf("explain --json " + plan.path());
  for (const char* key :
       {"samples_per_second_per_device", "tokens_per_second_per_device", "mfu", "hfu"}) {
    EXPECT_GT(json[key].get<double>(), 0) << key;
    EXPECT_EQ(json[key], simulated[key]) << key;
    EXPECT_EQ(json[key], explained[key]) << key;
  }
  EXPECT_LT(json["mfu"].get<double>(), 1);
  const double samples = 32 / json["iteration_seconds"].get<double>() / 4;
  EXPECT_NEAR(json["samples_per_second_per_device"].get<double>() / samples, 1, 1e-12);
}

// A layer profile has times, but no FLOPs; a Program as text has no plan.
TEST(JsonKeysTest, NoUtilizationWithoutFlops) {
  const std::string profile = SourceDir() + "/examples/profiles/tiny.txt";
  const TemporaryFile plan, program;
  const std::string cluster = ClusterFile("mixed4");
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model " + profile +
                      " --profile-batch 64 --batch 256 "
                      "--cluster " +
                      cluster + " -o " + plan.path())
                .exit_code,
            0);
  const Json json = JsonOf("explain --json " + plan.path());
  EXPECT_GT(json["samples_per_second_per_device"].get<double>(), 0);
  for (const char* key : {"tokens_per_second_per_device", "mfu", "hfu"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  ASSERT_EQ(RunHeddle("lower " + plan.path() + " -o " + program.path()).exit_code, 0);
  const Json simulated = JsonOf("simulate --json " + program.path() + " --cluster " + cluster);
  EXPECT_TRUE(simulated["samples_per_second_per_device"].is_null());
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
