// heddle verify, from the command line.

#include <gtest/gtest.h>

#include <regex>

#include "base/json_field.h"
#include "cli/run_heddle.h"

namespace heddle {
namespace {

TEST(VerifyCommandTest, EqualPlanAndItsKeys) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'tiny-mlp?layers=6' --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  const Ran ran = RunHeddle("verify --json " + plan.path());
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "verify").value();
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["dtype"], "f64") << "whatever the plan's is";
  for (const char* key : {"max_loss_error", "max_gradient_error", "max_parameter_error", "worst"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_LT(json["max_gradient_error"].get<double>(), 1e-9);
}

TEST(VerifyCommandTest, BadInput) { EXPECT_EQ(RunHeddle("verify /nonexistent.json").exit_code, 4); }

// What this machine cannot compute is verified as a small copy under the same decisions.
TEST(VerifyCommandTest, ALargeModelIsScaledDown) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'gpt?layers=24&hidden=1024&heads=16' --batch "
                      "32 --clip 1 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  const Ran ran = RunHeddle("verify --json " + plan.path());
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "verify").value();
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["scaled_to"]["model"], "gpt?heads=2&hidden=16&layers=24&seq=8&vocab=32");
}

// A plan, lowered to a Program as text.
struct PlanAndText {
  TemporaryFile plan, program;

  explicit PlanAndText(const std::string& request) {
    const Ran made = RunHeddle("plan --batch 8 --cluster " + ClusterFile("mixed4") + " -o " +
                               plan.path() + " " + request);
    EXPECT_EQ(made.exit_code, 0) << request << ": " << made.err;
    const Ran lowered = RunHeddle("lower " + plan.path() + " -o " + program.path());
    EXPECT_EQ(lowered.exit_code, 0) << request << ": " << lowered.err;
  }

  // Every line that matches is replaced.
  void Edit(const std::string& pattern, const std::string& with) const {
    const std::string text = ReadFile(program.path()).value();
    const std::string edited =
        std::regex_replace(text, std::regex(pattern, std::regex::multiline), with);
    ASSERT_NE(edited, text) << "nothing matches " << pattern;
    ASSERT_TRUE(WriteFile(program.path(), edited).ok());
  }
};

// What the header says about versions and averages is what the plan says.
TEST(VerifyCommandTest, ALoweredProgramIsVerifiedAsItsPlanIs) {
  const std::string async = "--model 'tiny-mlp?layers=6' --strategy async --versions ";
  for (const std::string& request :
       {std::string("--model tiny-gpt --strategy 1f1b --microbatches 4 --clip 1"),
        std::string("--model tiny-mlp --strategy spmd --optimizer sgd"), async + "stash",
        async + "vertical", async + "none", async + "2bw --microbatches 2",
        std::string("--model tiny-mlp --strategy local --replicas whole --every 2"),
        std::string("--model tiny-mlp --strategy local --replicas pipelined --every 2")}) {
    const PlanAndText made(request);
    const Ran plan = RunHeddle("verify --json " + made.plan.path());
    const Ran text = RunHeddle("verify --json " + made.program.path());
    EXPECT_EQ(text.exit_code, 0) << request << ": " << text.err;
    EXPECT_EQ(text.out, plan.out) << request;
    EXPECT_EQ(ParseJson(text.out, "verify").value()["ok"], true) << request;
  }
}

TEST(VerifyCommandTest, AnEditedProgramIsCheckedFirst) {
  const PlanAndText made("--model tiny-mlp --strategy dp");
  made.Edit("^  all-reduce .*\n", "");
  const Ran ran = RunHeddle("verify " + made.program.path());
  EXPECT_EQ(ran.exit_code, 4) << ran.out;
  EXPECT_NE(ran.err.find("lacks samples"), std::string::npos) << ran.err;
}

TEST(VerifyCommandTest, AProgramThatStatesNoRuleHasNothingToBeComparedWith) {
  const PlanAndText made("--model 'tiny-mlp?layers=6' --strategy async --versions stash");
  made.Edit("^update async.*\n", "");
  const Ran ran = RunHeddle("verify " + made.program.path());
  EXPECT_EQ(ran.exit_code, 4) << ran.out;
  EXPECT_NE(ran.err.find("(update)"), std::string::npos) << ran.err;
}

TEST(VerifyCommandTest, WhatHasNoArithmeticIsNotRun) {
  const PlanAndText made("--model tiny-mlp --strategy 1f1b");
  made.Edit("^ +ops .*\n", "");
  EXPECT_EQ(RunHeddle("verify " + made.program.path()).exit_code, 4);
  const PlanAndText other("--model tiny-mlp --strategy 1f1b");
  other.Edit("\\bfc1\\.w\\b", "another");
  EXPECT_EQ(RunHeddle("verify " + other.program.path()).exit_code, 4);
}

TEST(VerifyCommandTest, AProgramWithoutAModelNeedsAPlan) {
  const PlanAndText made("--model tiny-mlp --strategy 1f1b");
  made.Edit("^model .*\n", "");
  const Ran alone = RunHeddle("verify " + made.program.path());
  EXPECT_EQ(alone.exit_code, 4) << alone.out;
  EXPECT_NE(alone.err.find("--plan"), std::string::npos) << alone.err;
  const Ran beside = RunHeddle("verify " + made.program.path() + " --plan " + made.plan.path());
  EXPECT_EQ(beside.exit_code, 0) << beside.err;
  EXPECT_EQ(beside.out.find("equal: 1f1b of tiny-mlp on"), 0) << beside.out;
}

TEST(VerifyCommandTest, AProgramOfAnotherPlanIsRefused) {
  const PlanAndText made("--model tiny-mlp --strategy 1f1b");
  const PlanAndText other("--model 'tiny-mlp?layers=3' --strategy 1f1b");
  const std::string both = made.program.path() + " --plan " + other.plan.path();
  EXPECT_EQ(RunHeddle("verify " + both).exit_code, 4);
  made.Edit("^model .*\n", "");
  made.Edit("^samples .*", "samples 3");
  EXPECT_EQ(RunHeddle("verify " + made.program.path() + " --plan " + made.plan.path()).exit_code, 4)
      << "it has other samples than its plan's batch";
}

TEST(VerifyCommandTest, OptionsThatWouldHaveNoEffectAreRefused) {
  const PlanAndText made("--model tiny-mlp --strategy 1f1b");
  const std::string plan = made.plan.path(), program = made.program.path();
  EXPECT_EQ(RunHeddle("verify " + plan + " --plan " + plan).exit_code, 2);
  EXPECT_EQ(RunHeddle("verify " + program + " --profile " + plan).exit_code, 2);
}

TEST(VerifyCommandTest, ATextIsNotScaledDown) {
  const PlanAndText made("--model 'gpt?layers=24&hidden=1024&heads=16' --strategy 1f1b");
  const Ran ran = RunHeddle("verify " + made.program.path());
  EXPECT_EQ(ran.exit_code, 4) << ran.out;
  EXPECT_NE(ran.err.find("--whole"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace heddle
