// Ops on images: shapes, work, traffic, sharding and gradients, against numbers computed by hand.
#include <gtest/gtest.h>

#include <functional>

#include "model/autodiff.h"
#include "op_text.h"

namespace heddle {
namespace {

// What `write` makes of an activation [2, 3, height, width], with a loss over all its channels.
// "lead" is a product before it, so that the gradient with respect to the image is asked for.
Graph Images(int64_t height, int64_t width,
             const std::function<TensorId(GraphBuilder&, TensorId)>& write) {
  GraphBuilder g(2, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {3, height, width});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.BiasAdd("lead", "bcyx,c->bcyx", x, g.Parameter("lead.c", {3}));
  x = write(g, x);
  x = g.Mean("mean", x);
  g.CrossEntropy("xent", x, targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

constexpr char kAfterwards[] =
    "xent.dx cross_entropy_input bV,b,b->bV\n"
    "mean.dx mean_input bc->bcHW\n";
constexpr char kBefore[] = "lead.dbias reduce_sum bcyx->c\n";

// 3 channels of 8x9 to 5 of 4x3: a kernel of 3x4, stride 2, padding 1 and 0.
Graph Convolution() {
  return Images(8, 9, [](GraphBuilder& g, TensorId x) {
    return g.Conv2d("conv", x, g.Parameter("w", {5, 3, 3, 4}), {0, 0, 2, 1, 0});
  });
}

TEST(ImageOpsTest, Convolution) {
  const Graph graph = Convolution();
  // (8 + 2 - 3) / 2 + 1 = 4 and (9 - 4) / 2 + 1 = 3, both rounded down.
  EXPECT_EQ(TypeOf(graph, "conv.y"), "f32[2,5,4,3]");
  const double multiply_adds = 2.0 * 5 * 4 * 3 * 3 * 3 * 4;
  EXPECT_EQ(FlopsOf(graph, "conv"), 2 * multiply_adds);
  EXPECT_EQ(TrafficOf(graph, "conv"), 4 * (2 * 3 * 8 * 9 + 5 * 3 * 3 * 4 + 2 * 5 * 4 * 3));
  // The weight says how large the window is.
  EXPECT_EQ(OpOf(graph, "conv").attributes.window.height, 3);
  EXPECT_EQ(OpOf(graph, "conv").attributes.window.width, 4);
  EXPECT_TRUE(InfoOf(OpKind::kConv2d).matrix);
}

TEST(ImageOpsTest, GradientsOfAConvolution) {
  const Graph graph = Convolution();
  EXPECT_EQ(BackwardOf(graph), std::string(kAfterwards) +
                                   "conv.dx conv2d_input boYX,ocKL->bcHW|boYXcKL\n"
                                   "conv.dw conv2d_weight boYX,bcHW->ocKL|boYXcKL\n" +
                                   kBefore);
  EXPECT_EQ(TypeOf(graph, "d.lead.y"), "f32[2,3,8,9]");
  EXPECT_EQ(TypeOf(graph, "g.w"), "f32[5,3,3,4]");
  for (const char* op : {"conv.dx", "conv.dw"}) {
    EXPECT_EQ(FlopsOf(graph, op), FlopsOf(graph, "conv")) << op;
    EXPECT_EQ(OpOf(graph, op).attributes.window.stride, 2) << op;
    EXPECT_EQ(OpOf(graph, op).attributes.window.pad_height, 1) << op;
    EXPECT_EQ(OpOf(graph, op).attributes.window.pad_width, 0) << op;
  }
}

// Output channels can be divided; dividing input channels leaves partial sums; positions stay.
TEST(ImageOpsTest, ConvolutionsAreShardedByChannel) {
  const Graph graph = Convolution();
  EXPECT_EQ(ShardingOf(graph, "conv"),
            "b:shared c:summed H:whole W:whole o:shared K:whole L:whole Y:whole X:whole");
  EXPECT_EQ(ShardingOf(graph, "conv.dx"),
            "b:shared o:summed Y:whole X:whole c:shared K:whole L:whole H:whole W:whole");
  EXPECT_EQ(ShardingOf(graph, "conv.dw"),
            "b:summed o:shared Y:whole X:whole c:shared H:whole W:whole K:whole L:whole");
  for (const OpKind kind : {OpKind::kConv2d, OpKind::kConv2dInput, OpKind::kConv2dWeight}) {
    EXPECT_EQ(InfoOf(kind).linearity, Linearity::kMultilinear);
    EXPECT_EQ(InfoOf(kind).linear_in, 3);
  }
}

TEST(ImageOpsTest, MaxPool) {
  const Graph graph = Images(7, 6, [](GraphBuilder& g, TensorId x) {
    return g.MaxPool("pool", x, {3, 2, 2, 1});
  });
  EXPECT_EQ(TypeOf(graph, "pool.y"), "f32[2,3,4,3]");
  EXPECT_EQ(TypeOf(graph, "pool.where"), "i64[2,3,4,3]");
  EXPECT_EQ(FlopsOf(graph, "pool"), 2 * 3 * 7 * 6);
  EXPECT_EQ(TrafficOf(graph, "pool"), 2 * 3 * (4 * 7 * 6 + (4 + 8) * 4 * 3));
  EXPECT_EQ(BackwardOf(graph),
            std::string(kAfterwards) + "pool.dx max_pool_input bcYX,bcYX->bcHW|bcHW\n" + kBefore);
  EXPECT_EQ(OpOf(graph, "pool.dx").inputs[1].tensor, graph.FindTensor("pool.where"));
  EXPECT_EQ(TrafficOf(graph, "pool.dx"), TrafficOf(graph, "pool"));
  EXPECT_EQ(OpOf(graph, "pool.dx").attributes.window.height, 3);
  EXPECT_EQ(ShardingOf(graph, "pool"), "b:shared c:shared H:whole W:whole Y:whole X:whole");
  EXPECT_EQ(InfoOf(OpKind::kMaxPool).linearity, Linearity::kNone);
}

TEST(ImageOpsTest, AveragePool) {
  const Graph graph = Images(6, 6, [](GraphBuilder& g, TensorId x) {
    return g.AveragePool("pool", x, {3, 3, 3, 0, 0});
  });
  EXPECT_EQ(TypeOf(graph, "pool.y"), "f32[2,3,2,2]");
  EXPECT_EQ(TrafficOf(graph, "pool"), 4 * 2 * 3 * (36 + 4));
  EXPECT_EQ(BackwardOf(graph),
            std::string(kAfterwards) + "pool.dx average_pool_input bcYX->bcHW|bcHW\n" + kBefore);
  EXPECT_EQ(TypeOf(graph, "d.lead.y"), "f32[2,3,6,6]");
  EXPECT_EQ(OpOf(graph, "pool.dx").attributes.window.stride, 3);
  // Linear: a partial sum may go through it.
  EXPECT_EQ(InfoOf(OpKind::kAveragePool).linearity, Linearity::kMultilinear);
}

TEST(ImageOpsTest, MeanOverPositions) {
  const Graph graph = Images(5, 4, [](GraphBuilder&, TensorId x) { return x; });
  EXPECT_EQ(TypeOf(graph, "mean.y"), "f32[2,3]");
  EXPECT_EQ(FlopsOf(graph, "mean"), 2 * 3 * 5 * 4);
  EXPECT_EQ(TrafficOf(graph, "mean"), 4 * (2 * 3 * 5 * 4 + 2 * 3));
  EXPECT_EQ(BackwardOf(graph), std::string(kAfterwards) + kBefore);
  EXPECT_EQ(ShardingOf(graph, "mean"), "b:shared c:shared H:whole W:whole");
}

// Parts of 3 and 4 channels side by side; each takes its own channels of the gradient.
TEST(ImageOpsTest, Concat) {
  const Graph graph = Images(5, 5, [](GraphBuilder& g, TensorId x) {
    const TensorId y = g.Conv2d("conv", x, g.Parameter("w", {4, 3, 1, 1}), {});
    return g.Concat("join", {x, y});
  });
  EXPECT_EQ(TypeOf(graph, "join.y"), "f32[2,7,5,5]");
  EXPECT_EQ(FlopsOf(graph, "join"), 0);
  EXPECT_EQ(TrafficOf(graph, "join"), 4 * 2 * 25 * (3 + 4 + 7));
  EXPECT_EQ(ShardingOf(graph, "join"), "b:shared A:whole y:shared x:shared C:whole O:whole");
  EXPECT_EQ(BackwardOf(graph), std::string(kAfterwards) +
                                   "join.d0 slice bOyx->bCyx|bCyx\n"
                                   "join.d1 slice bOyx->bCyx|bCyx\n"
                                   "conv.dx conv2d_input boYX,ocKL->bcHW|boYXcKL\n"
                                   "conv.dx.sum0 add bstu,bstu->bstu\n"
                                   "conv.dw conv2d_weight boYX,bcHW->ocKL|boYXcKL\n" +
                                   kBefore);
  EXPECT_EQ(OpOf(graph, "join.d0").attributes.offset, 0);
  EXPECT_EQ(OpOf(graph, "join.d1").attributes.offset, 3);
  EXPECT_EQ(TypeOf(graph, "d.conv.y"), "f32[2,4,5,5]");
  EXPECT_EQ(TrafficOf(graph, "join.d1"), 2 * (4 * 2 * 4 * 25));  // the other channels stay unread
}

Graph Normalised(DType dtype = DType::kF32) {
  GraphBuilder g(2, dtype);
  TensorId x = g.Input("x", dtype, {3, 4, 5});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("all");
  x = g.Conv2d("conv", x, g.Parameter("w", {3, 3, 1, 1}), {});
  x = g.BatchNorm("bn", x, g.Parameter("scale", {3}), g.Parameter("shift", {3}), 1e-3);
  g.CrossEntropy("xent", g.Mean("mean", x), targets);
  AddTraining(g, {Optimizer::kSgd});
  return g.Finish().value();
}

TEST(ImageOpsTest, BatchNormalisationInSteps) {
  const Graph graph = Normalised();
  EXPECT_EQ(SignatureOf(graph, "bn.mean"), "bchw->c");
  EXPECT_EQ(SignatureOf(graph, "bn.variance"), "bchw,c->c");
  EXPECT_EQ(SignatureOf(graph, "bn"), "bchw,c,c,c,c->bchw");
  EXPECT_EQ(TypeOf(graph, "bn.y"), "f32[2,3,4,5]");
  EXPECT_EQ(OpOf(graph, "bn").attributes.epsilon, 1e-3);
  constexpr int64_t kPoints = 2 * 3 * 4 * 5;
  EXPECT_EQ(FlopsOf(graph, "bn.mean"), kPoints);
  EXPECT_EQ(FlopsOf(graph, "bn.variance"), 3 * kPoints);
  EXPECT_EQ(FlopsOf(graph, "bn"), 4 * kPoints);
  EXPECT_EQ(TrafficOf(graph, "bn.mean"), 4 * (kPoints + 3));
  EXPECT_EQ(TrafficOf(graph, "bn.variance"), 4 * (kPoints + 3 + 3));
  EXPECT_EQ(TrafficOf(graph, "bn"), 4 * (2 * kPoints + 4 * 3));
}

// Statistics have no sample axis, and are exact also where activations are not.
TEST(ImageOpsTest, BatchStatistics) {
  const Graph graph = Normalised(DType::kBf16);
  EXPECT_EQ(TypeOf(graph, "bn.y"), "bf16[2,3,4,5]");
  for (const char* tensor : {"bn.mean.y", "bn.variance.y", "d.bn.sum", "d.bn.product"}) {
    EXPECT_EQ(TypeOf(graph, tensor), "f32[3]") << tensor;
    EXPECT_FALSE(graph.tensor(graph.FindTensor(tensor).value()).per_sample) << tensor;
  }
  EXPECT_EQ(TypeOf(graph, "g.scale"), "bf16[3]");
  for (const char* op : {"bn.mean", "bn.variance", "bn.sums"}) {
    EXPECT_TRUE(ShardingOf(graph, op).find("b:summed") != std::string::npos) << op;
    EXPECT_TRUE(ShardingOf(graph, op).find("c:shared") != std::string::npos) << op;
  }
  EXPECT_EQ(ShardingOf(graph, "bn"), "b:shared c:shared h:shared w:shared");
  EXPECT_EQ(InfoOf(OpKind::kBatchNorm).linearity, Linearity::kNone);
}

// The statistics have no gradient ops of their own: the sums account for them.
TEST(ImageOpsTest, GradientsOfBatchNormalisation) {
  const Graph graph = Normalised();
  EXPECT_EQ(BackwardOf(graph), std::string(kAfterwards) +
                                   "bn.sums batch_norm_sums bchw,bchw,c,c->c,c\n"
                                   "bn.dx batch_norm_input bchw,bchw,c,c,c,c,c->bchw\n"
                                   "bn.dscale reduce_sum c->c\n"
                                   "bn.dshift reduce_sum c->c\n"
                                   "conv.dw conv2d_weight boYX,bcHW->ocKL|boYXcKL\n");
  EXPECT_EQ(OpOf(graph, "bn.dscale").inputs[0].tensor, graph.FindTensor("d.bn.product"));
  EXPECT_EQ(OpOf(graph, "bn.dshift").inputs[0].tensor, graph.FindTensor("d.bn.sum"));
  EXPECT_EQ(OpOf(graph, "bn.dscale").phase, Phase::kBackwardWeight);
  EXPECT_EQ(OpOf(graph, "bn.sums").phase, Phase::kBackwardInput);
  EXPECT_EQ(OpOf(graph, "bn.sums").attributes.epsilon, 1e-3);
  EXPECT_EQ(OpOf(graph, "bn.dx").attributes.epsilon, 1e-3);
  EXPECT_EQ(graph.FindTensor("d.bn.mean.y"), std::nullopt);
}

}  // namespace
}  // namespace heddle
