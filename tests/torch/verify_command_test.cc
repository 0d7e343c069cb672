// heddle verify, from the command line.

#include <gtest/gtest.h>

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
  for (const char* key : {"max_loss_error", "max_gradient_error", "max_parameter_error", "worst"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_LT(json["max_gradient_error"].get<double>(), 1e-9);
}

TEST(VerifyCommandTest, BadInput) {
  EXPECT_EQ(RunHeddle("verify /nonexistent.json").exit_code, 4);
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'gpt?layers=24' --batch 16 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  const Ran ran = RunHeddle("verify " + plan.path());
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_NE(ran.err.find("too large"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace heddle
