#include "model/layer_chain.h"

#include <gtest/gtest.h>

#include "model/zoo.h"
#include "skip_graphs.h"

namespace heddle {
namespace {

// "x y" of a cut's tensors.
std::string Names(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::string text;
  for (const TensorId id : tensors) text += (text.empty() ? "" : " ") + graph.tensor(id).name;
  return text;
}

// Every cut as "forward: … (bytes) backward: … (bytes)".
std::string CutsOf(const Graph& graph) {
  std::string text;
  for (const Cut& cut : ChainOf(graph).cuts) {
    text += Names(graph, cut.forward) + " (" + std::to_string(cut.forward_bytes.value) + ") | " +
            Names(graph, cut.backward) + " (" + std::to_string(cut.backward_bytes.value) + ")\n";
  }
  return text;
}

TEST(LayerChainTest, AChainOfLayers) {
  EXPECT_EQ(CutsOf(BuildModel("mlp?layers=3&inputs=4&hidden=5&outputs=6", {.batch = 7}).value()),
            "fc0.gelu.y (20) | d.fc0.gelu.y (20)\n"
            "fc1.gelu.y (20) | d.fc1.gelu.y (20)\n");
}

// The hidden state of 64 positions crosses every cut; the tied table does not: each end holds it.
TEST(LayerChainTest, Gpt) {
  const Graph graph = BuildModel("tiny-gpt?layers=3", {.batch = 2}).value();
  const LayerChain chain = ChainOf(graph);
  ASSERT_EQ(chain.size(), 5);
  for (const Cut& cut : chain.cuts) {
    EXPECT_EQ(cut.forward.size(), 1U);
    EXPECT_EQ(cut.backward.size(), 1U);
    EXPECT_EQ(cut.forward_bytes.value, 64 * 64 * 4);
    EXPECT_EQ(cut.backward_bytes.value, 64 * 64 * 4);
  }
  const auto holds_table = [&](size_t layer) {
    const auto& held = chain.layers[layer].parameters;
    return std::find(held.begin(), held.end(), 0) != held.end();
  };
  EXPECT_TRUE(holds_table(0));
  EXPECT_FALSE(holds_table(2));
  EXPECT_TRUE(holds_table(4));
}

TEST(LayerChainTest, HalfPrecisionHalvesTheBytes) {
  const Graph graph = BuildModel("gpt?layers=2", {.dtype = DType::kBf16}).value();
  EXPECT_EQ(ChainOf(graph).cuts[0].forward_bytes.value, 1024 * 768 * 2);
}

// x0 is used in layers 1 and 3: forward it crosses all three cuts. Its gradient leaves layer 3 as
// the addition's own gradient, crosses to layer 1, is summed there, and goes on as one tensor.
TEST(LayerChainTest, ASkipConnectionOverSeveralCuts) {
  EXPECT_EQ(CutsOf(SkipGraph({{}, {}, {}, {0}})),
            "l0.relu.y (32) | d.l1.da.sum0 (32)\n"
            "l0.relu.y l1.relu.y (64) | d.l3.add0.y d.l1.relu.y (64)\n"
            "l0.relu.y l2.relu.y (64) | d.l3.add0.y d.l2.relu.y (64)\n");
}

TEST(LayerChainTest, SkipConnectionsThatOverlap) {
  EXPECT_EQ(CutsOf(SkipGraph({{}, {}, {0}, {1}})),
            "l0.relu.y (32) | d.l1.da.sum1 (32)\n"
            "l0.relu.y l1.relu.y (64) | d.l2.add0.y d.l2.da.sum0 (64)\n"
            "l1.relu.y l2.relu.y (64) | d.l3.add1.y d.l2.relu.y (64)\n");
}

TEST(LayerChainTest, EveryOpBelongsToOneLayer) {
  for (const char* spec : {"tiny-gpt", "tiny-mlp"}) {
    const Graph graph = BuildModel(spec, {}).value();
    size_t ops = 0;
    for (const ChainLayer& layer : ChainOf(graph).layers) {
      EXPECT_EQ(layer.backward.size(), layer.backward_input.size() + layer.backward_weight.size());
      ops += layer.forward.size() + layer.backward.size();
    }
    EXPECT_EQ(ops + graph.parameters().size(), graph.ops().size()) << spec;
  }
}

TEST(LayerChainTest, OpaqueLayers) {
  GraphBuilder g(4, DType::kF32);
  const TensorId x = g.Input("x", DType::kF32, {10});
  g.BeginLayer("a");
  const TensorId a = g.Opaque("a", {x}, 100, 50, {Seconds{1}, Seconds{2}, 4});
  g.BeginLayer("b");
  const TensorId b = g.Opaque("b", {a}, 30, 50, {Seconds{1}, Seconds{2}, 4});
  g.BeginLayer("c");
  g.Opaque("c", {a, b}, 1, 0, {Seconds{1}, Seconds{2}, 4});
  AddTraining(g, {Optimizer::kSgd});
  EXPECT_EQ(CutsOf(g.Finish().value()),
            "a.y (400) | d.b.dx0.sum0 (400)\n"
            "a.y b.y (520) | d.b.y d.a.y (520)\n");
}

TEST(LayerChainTest, OneLayerHasNoCuts) {
  EXPECT_EQ(CutsOf(BuildModel("mlp?layers=1", {}).value()), "");
}

}  // namespace
}  // namespace heddle
