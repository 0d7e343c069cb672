// heddle compare and heddle plan: which strategies, how long, and what they say at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "run_heddle.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string On(const std::string& cluster) {
  return " --model 'tiny-gpt?layers=4' --batch 16 --cluster " + ClusterFile(cluster);
}

TEST(CompareTest, OnlyTheStrategiesNamed) {
  const Ran ran = RunHeddle("compare --json --strategies 1f1b,ddp,fsdp,dp" + On("mixed4"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "compare").value();
  std::vector<std::string> names;
  for (const Json& row : json["rows"]) {
    names.push_back(row["strategy"]);
    EXPECT_EQ(row["status"], "ok");
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("1f1b", "dp", "zero"));
}

TEST(CompareTest, AnUnknownStrategyIsRefusedWithTheNearest) {
  const Ran ran = RunHeddle("compare --strategies 1f1b,hetpip" + On("mixed4"));
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.err, HasSubstr("hetpip"));
  EXPECT_THAT(ran.err, HasSubstr("\"hetpipe\""));
}

TEST(CompareTest, SaysWhatToUse) {
  const Ran ran = RunHeddle("compare --strategies 1f1b,dp,local" + On("mixed4"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\nUse "));
  EXPECT_THAT(ran.out, Not(HasSubstr("Use local")));
  EXPECT_THAT(ran.out, HasSubstr("; next "));
}

TEST(CompareTest, WhatHasNoTimeIsNotFinished) {
  const Ran ran = RunHeddle("compare --budget 1e-9" + On("mixed4"));
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_THAT(ran.out, HasSubstr("not finished"));
  EXPECT_THAT(ran.err, HasSubstr("--budget"));
  const Ran json = RunHeddle("compare --json --strategies dp --budget 1e-9" + On("mixed4"));
  EXPECT_EQ(json.exit_code, 3);
  EXPECT_EQ(ParseJson(json.out, "compare").value()["rows"][0]["status"], "not finished");
}

// One device of its kind: local training of it alone has one microbatch.
TEST(CompareTest, OneFastDeviceAmongSlowOnesIsNoFailure) {
  const TemporaryFile cluster(R"(
schema = "heddle.cluster/1"
[device_type.fast]
flops = "20 TFLOP/s"
memory = "700 MiB"
memory_bandwidth = "1500 GB/s"
[device_type.slow]
flops = "3 TFLOP/s"
memory = "600 MiB"
memory_bandwidth = "160 GB/s"
[[node]]
name = "a"
devices = [{ type = "fast" }]
[[node]]
name = "b"
devices = [{ type = "slow", count = 2 }]
link = { bandwidth = "8 GB/s", latency = "2 us" }
[[link]]
between = ["a", "b"]
bandwidth = "25 Gbit/s"
latency = "15 us"
)");
  const Ran ran = RunHeddle(
      "compare --json --strategies local --model 'gpt?layers=2&hidden=256&heads=4&vocab=8000' "
      "--batch 64 --cluster " +
      cluster.path());
  ASSERT_EQ(ran.exit_code, 0) << ran.err << ran.out;
}

TEST(PlanTest, WithoutAStrategyTheBestIsTaken) {
  const Ran best = RunHeddle("plan --json" + On("mixed4"));
  ASSERT_EQ(best.exit_code, 0) << best.err;
  const double seconds = ParseJson(best.out, "plan").value()["iteration_seconds"];
  for (const char* strategy : {"1f1b", "pipeline", "dp-proportional"}) {
    const Ran one = RunHeddle(std::string("plan --json --strategy ") + strategy + On("mixed4"));
    EXPECT_LE(seconds, ParseJson(one.out, "plan").value()["iteration_seconds"]) << strategy;
  }
}

TEST(PlanTest, SaysWhichStrategyWouldBeBetter) {
  const std::string model = " --model 'gpt?layers=6' --batch 32 --cluster " + ClusterFile("mixed4");
  EXPECT_THAT(RunHeddle("plan --strategy gpipe" + model).out,
              testing::ContainsRegex("better +[a-z0-9-]+ would take .* less: --strategy "));
  EXPECT_THAT(RunHeddle("plan --strategy pipeline" + model).out, Not(HasSubstr("better")));
}

TEST(PlanTest, OutOfTimeIsSaidWithTheRemedy) {
  const Ran ran = RunHeddle("plan --strategy pipeline --budget 1e-9" + On("mixed4"));
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_THAT(ran.err, HasSubstr("not finished"));
  EXPECT_THAT(ran.err, HasSubstr("--budget SECONDS"));
}

}  // namespace
}  // namespace heddle
