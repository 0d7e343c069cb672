// What heddle explain says of an SPMD plan: states, exchanges, ratios, and why another lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "run_heddle.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class ExplainSpmdTest : public testing::Test {
 protected:
  ExplainSpmdTest() {
    const Ran ran = RunHeddle(
        "plan --strategy spmd --model 'mlp?layers=4&hidden=4096&inputs=4096' --batch 8 --cluster " +
        ClusterFile("mixed4") + " -o " + plan_.path());
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("runner-up   "));
  }

  TemporaryFile plan_;
};

TEST_F(ExplainSpmdTest, StatesExchangesAndRatios) {
  const std::string text = RunHeddle("explain " + plan_.path()).out;
  EXPECT_THAT(text, HasSubstr("fc0\n  weights      S0'1: bias; S1'1: w\n"
                              "  activations  R: x; S1'1: y add.y gelu.y\n"
                              "  gradients    S0'1: g.bias; S1'1: d.add.y g.w\n"));
  EXPECT_THAT(text, testing::ContainsRegex("fc1 .*reduce-scatter  y +P  S1'1 +128 KiB  all 4 +"
                                           "[0-9.]+ us"));
  EXPECT_THAT(text, HasSubstr("exchanges; one after the other, alone, they would take "));
  EXPECT_THAT(text, testing::ContainsRegex("ratios      devices '1: 0.3[0-9]+ 0.3[0-9]+ 0.1"));
  EXPECT_THAT(text, HasSubstr("device  share  share '1"));
  EXPECT_THAT(text, testing::ContainsRegex("The runner-up .* (longer|as long)"));
}

// Layers of which the same is said are said once, though their gradients' names differ.
TEST(ExplainSpmdFoldTest, LayersAlikeAreFoldedUnlessAllAreAskedFor) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --strategy zero --model 'tiny-gpt?layers=6' --batch 32 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  EXPECT_THAT(RunHeddle("explain " + plan.path()).out, HasSubstr("\nblock1 … block5 ×5  "));
  EXPECT_THAT(RunHeddle("explain --all " + plan.path()).out, HasSubstr("\nblock3\n  weights  "));
}

TEST_F(ExplainSpmdTest, AsJson) {
  const Json json = ParseJson(RunHeddle("explain --json " + plan_.path()).out, "explain").value();
  ASSERT_GE(json["exchanges"].size(), 1U);
  const Json& exchange = json["exchanges"][0];
  EXPECT_EQ(exchange["layer"], "fc1");
  EXPECT_EQ(exchange["bytes"], 128 << 10);
  EXPECT_EQ(exchange["members"], 4);
  EXPECT_GT(exchange["alone_seconds"].get<double>(), 0);
  ASSERT_GE(json["search"]["tried"].size(), 2U);
  EXPECT_EQ(json["search"]["tried"][0]["iteration_seconds"], json["iteration_seconds"]);
  // Collectives count.
  EXPECT_GT(json["devices"][0]["sent_bytes"].get<int64_t>(), 100'000);
}

}  // namespace
}  // namespace heddle
