#include "run/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/json_field.h"

namespace heddle {
namespace {

using testing::HasSubstr;

RunConfig Config(const std::function<void(RunConfig&)>& change = [](RunConfig&) {}) {
  RunConfig config;
  config.plan = "plan.json";
  change(config);
  return config;
}

TEST(RunConfigTest, JsonGivesItBack) {
  const RunConfig config = Config([](RunConfig& c) {
    c.seed = 7;
    c.dtype = DType::kF64;
    c.keep_going = c.elastic = c.may_override = true;
    c.stuck_after = 3;
    c.data_hash = "0123456789abcdef";
  });
  const Json json = RunConfigToJson(config);
  EXPECT_EQ(RunConfigToJson(RunConfigFromJson(JsonField(json, "c")).value()), json);
}

// A run that an older version began.
TEST(RunConfigTest, WhatIsMissingHasItsDefault) {
  const Json json = {{"plan", "plan.json"}, {"rate", 0.5}};
  const RunConfig config = RunConfigFromJson(JsonField(json, "c")).value();
  EXPECT_EQ(config.learning_rate, 0.5);
  EXPECT_EQ(config.stuck_after, 10);
  EXPECT_FALSE(RunConfigFromJson(JsonField(Json{{"rate", 1}}, "c")).ok());
}

TEST(RunConfigTest, ValuesOutOfRangeAreRefused) {
  EXPECT_FALSE(CheckRunConfig(Config([](RunConfig& c) { c.stuck_after = 0.5; })).ok());
  EXPECT_FALSE(CheckRunConfig(Config([](RunConfig& c) { c.stuck_after = -1; })).ok());
  EXPECT_FALSE(CheckRunConfig(Config([](RunConfig& c) { c.dilate = 1.0 / 0.0; })).ok());
  EXPECT_TRUE(CheckRunConfig(Config([](RunConfig& c) { c.stuck_after = 0; })).ok());
}

// An option either works or is refused.
TEST(RunConfigTest, OptionsThatWouldBeIgnoredAreRefused) {
  struct Case {
    const char* given;
    std::function<void(RunConfig&)> refused, works;
  };
  const auto threads = [](RunConfig& c) { c.threads = true; };
  const auto emulate = [](RunConfig& c) { c.emulate = true; };
  const auto plain = [](RunConfig&) {};
  const Case cases[] = {
      {"dilate", plain, emulate},
      {"eval_every",
       [](RunConfig& c) {
         c.eval_every = 5;
         c.validation = 0;
       },
       [](RunConfig& c) { c.eval_every = 5; }},
      {"keep", plain, [](RunConfig& c) { c.save_every = 5; }},
      {"port", threads, plain},
      {"port", emulate, plain},
      {"meet_within", threads, plain},
      {"stuck_after", threads, plain},
      {"elastic", emulate, plain},
      {"native_collectives", threads, plain},
      {"override", plain, [](RunConfig& c) { c.resume = "runs/a"; }},
  };
  for (const Case& one : cases) {
    const Status refused = CheckGivenOptions(Config(one.refused), {one.given});
    ASSERT_FALSE(refused.ok()) << one.given;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(refused.error().ToString(), HasSubstr(OptionOf(one.given)));
    EXPECT_THAT(refused.error().ToString(), HasSubstr("hint"));
    EXPECT_TRUE(CheckGivenOptions(Config(one.works), {one.given}).ok()) << one.given;
    EXPECT_TRUE(CheckGivenOptions(Config(one.refused), {}).ok()) << one.given;
  }
}

TEST(RunConfigTest, OptionsHaveTheirNames) {
  EXPECT_EQ(OptionOf("save_every"), "--save-every");
  EXPECT_EQ(OptionOf("directory"), "--dir");
}

}  // namespace
}  // namespace heddle
