// heddle share: what tools rely on, and what is refused.

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

void ExpectRefused(const std::string& arguments, int exit_code, const std::string& says) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, exit_code) << arguments << "\n" << ran.err;
  EXPECT_NE(ran.err.find(says), std::string::npos) << says << " not in: " << ran.err;
  EXPECT_EQ(ran.out, "") << arguments;
}

TEST(ShareTest, TwoThatShareAsJson) {
  const Json json = JsonOf("share examples/09-share.toml --baselines --json");
  EXPECT_EQ(json["schema"], "heddle.share/1");
  EXPECT_EQ(json["share"], true);
  ASSERT_EQ(json["groups"].size(), 1U);
  const Json& group = json["groups"][0];
  EXPECT_EQ(group["jobs"], Json({"vgg", "bert"}));
  EXPECT_GT(group["gain"].get<double>(), 0.3);
  EXPECT_GE(group["period_seconds"].get<double>(),
            group["best_period_seconds"].get<double>() * (1 - 1e-9));
  EXPECT_EQ(group["baselines"].size(), 5U);
  EXPECT_EQ(group["notes"], Json::array());
  EXPECT_GT(json["predicted_gain"].get<double>(), 0.3);
  ASSERT_EQ(json["jobs"].size(), 2U);
  EXPECT_EQ(json["jobs"][1]["name"], "bert");
  EXPECT_GT(json["jobs"][1]["slowdown"].get<double>(), 1);
}

TEST(ShareTest, TwoThatDoNotShareSayWhy) {
  const Json json = JsonOf("share examples/09-do-not-share.toml --json");
  EXPECT_EQ(json["share"], false);
  EXPECT_EQ(json["predicted_gain"], 0.0);
  EXPECT_EQ(json["groups"].size(), 2U);
  ASSERT_EQ(json["refusals"].size(), 1U);
  EXPECT_NE(json["refusals"][0]["reason"].get<std::string>().find("mean completion time"),
            std::string::npos);
}

TEST(ShareTest, ATraceAsJson) {
  const Json json = JsonOf("share --trace examples/09-trace.csv --devices 8 --json");
  EXPECT_EQ(json["schema"], "heddle.share-trace/1");
  EXPECT_EQ(json["jobs"], 8);
  ASSERT_EQ(json["schedules"].size(), 4U);
  EXPECT_EQ(json["schedules"][3]["policy"], "shortest");
  EXPECT_EQ(json["schedules"][3]["crossover"], true);
  EXPECT_LT(json["schedules"][3]["makespan_seconds"].get<double>(),
            json["schedules"][2]["makespan_seconds"].get<double>());
}

TEST(ShareTest, WhatIsRefused) {
  ExpectRefused("share", 2, "neither or both");
  ExpectRefused("share examples/09-share.toml --trace examples/09-trace.csv", 2, "neither or both");
  ExpectRefused("share no-such.toml", 4, "no-such.toml");
  ExpectRefused("share examples/clusters/mixed4.toml", 4, "expected \"heddle.jobs/1\"");
  ExpectRefused("share --trace examples/09-trace.csv --devices 4", 3, "wants 8 devices");
  ExpectRefused("share --trace examples/09-share.toml", 4, "09-share.toml:1: no column");
  ExpectRefused("share --trace examples/09-trace.csv --devices 0", 2, "--devices");
}

}  // namespace
}  // namespace heddle
