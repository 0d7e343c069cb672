// The structure of what autodiff writes; its numbers are checked where kernels are.
#include "model/autodiff.h"

#include <gtest/gtest.h>

#include <set>

#include "model/zoo.h"
#include "skip_graphs.h"

namespace heddle {
namespace {

std::vector<Graph> SomeGraphs() {
  std::vector<Graph> graphs;
  for (const char* spec : {"tiny-mlp", "tiny-gpt", "tiny-gpt?tied=0", "mlp?layers=1"}) {
    graphs.push_back(BuildModel(spec, {.batch = 4}).value());
  }
  graphs.push_back(SkipGraph({{}, {0}, {}, {0, 1}, {2}}));
  return graphs;
}

// Names of the ops that write a tensor.
std::vector<std::string> WritersOf(const Graph& graph, TensorId tensor) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops()) {
    for (const Operand& output : op.outputs) {
      if (output.tensor == tensor) names.push_back(op.name);
    }
  }
  return names;
}

std::vector<std::string> WritersOf(const Graph& graph, const std::string& tensor) {
  return WritersOf(graph, graph.FindTensor(tensor).value());
}

TEST(AutodiffTest, EveryParameterHasOneGradientAndOneUpdate) {
  for (const Graph& graph : SomeGraphs()) {
    std::set<TensorId> gradients;
    for (const Parameter& p : graph.parameters()) {
      EXPECT_TRUE(gradients.insert(p.gradient).second);
      EXPECT_EQ(graph.tensor(p.gradient).shape, graph.tensor(p.tensor).shape);
      EXPECT_EQ(graph.tensor(p.gradient).role, Role::kWeightGradient);
      EXPECT_FALSE(WritersOf(graph, p.gradient).empty());
      EXPECT_EQ(graph.op(p.update).phase, Phase::kUpdate);
      EXPECT_EQ(p.states.size(), graph.op(p.update).kind == OpKind::kAdam ? 2U : 0U);
    }
  }
}

// Input and weight gradients are apart: an op writes one or the other.
TEST(AutodiffTest, PhasesFollowTheRoleOfTheOutput) {
  for (const Graph& graph : SomeGraphs()) {
    for (const Op& op : graph.ops()) {
      if (op.phase != Phase::kBackwardInput && op.phase != Phase::kBackwardWeight) continue;
      const bool input = op.phase == Phase::kBackwardInput;
      for (const Operand& output : op.outputs) {
        EXPECT_EQ(graph.tensor(output.tensor).role, input ? Role::kGradient : Role::kWeightGradient)
            << op.name;
      }
    }
  }
}

TEST(AutodiffTest, BothPartsOfAProduct) {
  const Graph graph = BuildModel("mlp?layers=2", {}).value();
  EXPECT_EQ(graph.op(graph.FindOp("fc1.da").value()).phase, Phase::kBackwardInput);
  EXPECT_EQ(graph.op(graph.FindOp("fc1.db").value()).phase, Phase::kBackwardWeight);
  EXPECT_EQ(graph.FindOp("fc0.da"), std::nullopt);  // the data has no gradient
}

TEST(AutodiffTest, TiedWeightsHaveTwoProducersOfOneGradient) {
  const Graph tied = BuildModel("tiny-gpt", {}).value();
  EXPECT_EQ(WritersOf(tied, "g.embed.tokens"),
            (std::vector<std::string>{"head.logits.db", "embed.dtable"}));
  const Parameter& table = tied.parameters()[0];
  EXPECT_EQ(tied.tensor(table.tensor).name, "embed.tokens");
  EXPECT_EQ(table.layers, (std::vector<LayerId>{LayerId{0}, LayerId{5}}));

  const Graph apart = BuildModel("tiny-gpt?tied=0", {}).value();
  EXPECT_EQ(WritersOf(apart, "g.embed.tokens"), (std::vector<std::string>{"embed.dtable"}));
  EXPECT_EQ(WritersOf(apart, "g.head.w"), (std::vector<std::string>{"head.logits.db"}));
}

// Backward visits layers from the last to the first, forward the other way, updates come last.
TEST(AutodiffTest, LayersInOrder) {
  for (const Graph& graph : SomeGraphs()) {
    int forward = 0, backward = static_cast<int>(graph.layers().size()) - 1;
    bool in_backward = false, in_update = false;
    for (const Op& op : graph.ops()) {
      if (op.phase == Phase::kForward) {
        EXPECT_FALSE(in_backward || in_update) << op.name;
        EXPECT_GE(op.layer.value, forward) << op.name;
        forward = op.layer.value;
      } else if (op.phase == Phase::kUpdate) {
        in_update = true;
      } else {
        in_backward = true;
        EXPECT_FALSE(in_update) << op.name;
        EXPECT_LE(op.layer.value, backward) << op.name;
        backward = op.layer.value;
      }
    }
  }
}

// x0 is used by layers 1 and 3: layer 3 makes the first part of its gradient, layer 1 adds to it.
TEST(AutodiffTest, GradientsOfSkipsAreSummedWhereTheLayerIs) {
  const Graph graph = SkipGraph({{}, {}, {}, {0}});
  std::vector<std::string> sums;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::kAdd && op.phase == Phase::kBackwardInput) {
      sums.push_back(op.name + " in " + graph.layers()[static_cast<size_t>(op.layer.value)]);
    }
  }
  EXPECT_EQ(sums, (std::vector<std::string>{"l1.da.sum0 in l1"}));
}

TEST(AutodiffTest, OpaqueLayersDivideTheirBackwardTime) {
  GraphBuilder g(8, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {10});
  g.BeginLayer("a");
  x = g.Opaque("a", {x}, 20, 100, {Seconds{1}, Seconds{3}, 4});
  g.BeginLayer("b");
  x = g.Opaque("b", {x}, 20, 100, {Seconds{1}, Seconds{3}, 4});
  g.BeginLayer("c");
  x = g.Opaque("c", {x}, 5, 0, {Seconds{1}, Seconds{3}, 4});
  AddTraining(g, {Optimizer::kSgd});
  const Graph graph = g.Finish().value();
  const auto seconds = [&](const std::string& op) {
    return graph.op(graph.FindOp(op).value()).attributes.profiled_seconds.value;
  };
  EXPECT_EQ(graph.FindOp("a.dx0"), std::nullopt);  // data: all of its time goes to the weights
  EXPECT_EQ(seconds("a.dw"), 3);
  EXPECT_EQ(seconds("b.dx0"), 1.5);
  EXPECT_EQ(seconds("b.dw"), 1.5);
  EXPECT_EQ(seconds("c.dx0"), 3);
  EXPECT_EQ(graph.op(graph.FindOp("b.dx0").value()).attributes.profiled_rows, 4);
}

}  // namespace
}  // namespace heddle
