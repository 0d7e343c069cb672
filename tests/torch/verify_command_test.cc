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

}  // namespace
}  // namespace heddle
