#include "model/sharding.h"

#include <gtest/gtest.h>

#include "model/zoo.h"
#include "op_text.h"

namespace heddle {
namespace {

// "S0,R->S0  R,S1->S1": one word for each rule, inputs and outputs.
std::string RulesText(const Graph& graph, const std::string& name) {
  const Op& op = OpOf(graph, name);
  std::string text;
  for (const AxisRule& rule : RulesOf(op)) {
    text += text.empty() ? "" : "  ";
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      text += (k == 0 ? "" : ",") + NameOf(InputState(op, k, rule));
    }
    text += "->";
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      text += (k == 0 ? "" : ",") + NameOf(OutputState(op, k, rule));
    }
  }
  return text;
}

Graph Gpt() {
  return BuildModel("gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16", {.batch = 2}).value();
}

// x[b,s,k] w[k,n]: by sample, position, row (a sum), column; partial in one factor.
TEST(ShardingTest, MatrixProduct) {
  EXPECT_EQ(RulesText(Gpt(), "block0.fc1"),
            "R,R->R  S0,R->S0  S1,R->S1  S2,S0->P  R,S1->S2  P,R->P  R,P->P");
}

TEST(ShardingTest, GradientOfAWeight) {
  EXPECT_EQ(RulesText(Gpt(), "block0.fc1.db"),
            "R,R->R  S0,S0->P  S1,S1->P  S2,R->S0  R,S2->S1  P,R->P  R,P->P");
}

// A partial sum and a bias: the bias must be partial as well.
TEST(ShardingTest, BiasUnderPartialSums) {
  EXPECT_EQ(RulesText(Gpt(), "block0.fc1.add"), "R,R->R  S0,R->S0  S1,R->S1  S2,S0->S2  P,P->P");
}

// Features are normalised over: whole.
TEST(ShardingTest, LayerNorm) {
  EXPECT_EQ(RulesText(Gpt(), "block0.ln1"), "R,R,R->R,R,R  S0,R,R->S0,S0,S0  S1,R,R->S1,S1,S1");
}

TEST(ShardingTest, Attention) {
  EXPECT_EQ(RulesText(Gpt(), "block0.attn"), "R->R,R  S0->S0,S0  S3->S2,S1");
}

TEST(ShardingTest, UpdateInAnyShard) {
  EXPECT_EQ(RulesText(Gpt(), "block0.fc1.w.update"),
            "R,R,R,R->R,R,R  S0,S0,S0,S0->S0,S0,S0  S1,S1,S1,S1->S1,S1,S1");
}

TEST(ShardingTest, Names) {
  EXPECT_EQ(NameOf(Layout{ShardState::Sharded(1, 2), ShardState::Partial()}), "S1'2.P");
}

}  // namespace
}  // namespace heddle
