// The zoo's models of images, against what is published of them. Numbers of parameters and of
// multiply-adds without a source of their own are those of torchvision's documentation
// (pytorch.org/vision/stable/models.html), which counts the same networks.
#include <gmock/gmock.h>

#include "op_text.h"
#include "zoo_text.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// 1 percent: pooling, biases and normalisations are counted by some and not by others.
void ExpectMultiplyAdds(const std::string& spec, double published) {
  EXPECT_NEAR(MultiplyAddsOf(Build(spec)), published, 0.01 * published) << spec;
}

TEST(ZooVisionTest, PublishedParameters) {
  EXPECT_EQ(Build("vgg19").parameter_count(), 143'667'240);
  EXPECT_EQ(Build("resnet152").parameter_count(), 60'192'808);
  EXPECT_EQ(Build("inception-v3").parameter_count(), 23'834'568);
  EXPECT_EQ(Build("vit").parameter_count(), 86'567'656);
}

TEST(ZooVisionTest, ResnetsOfOtherDepths) {
  EXPECT_EQ(Build("resnet152?blocks2=4&blocks3=6").parameter_count(), 25'557'032);   // ResNet50
  EXPECT_EQ(Build("resnet152?blocks2=4&blocks3=23").parameter_count(), 44'549'160);  // ResNet101
}

// ViT-L/16 and ViT-B/32.
TEST(ZooVisionTest, OtherVisionTransformers) {
  EXPECT_EQ(Build("vit?layers=24&hidden=1024&heads=16").parameter_count(), 304'326'632);
  EXPECT_EQ(Build("vit?patch=32").parameter_count(), 88'224'232);
}

TEST(ZooVisionTest, PublishedMultiplyAdds) {
  ExpectMultiplyAdds("vgg19", 19.63e9);  // also He et al. 2016, section 3.3
  ExpectMultiplyAdds("resnet152", 11.51e9);
  ExpectMultiplyAdds("resnet152?blocks2=4&blocks3=6", 4.09e9);
  ExpectMultiplyAdds("resnet152?blocks2=4&blocks3=23", 7.80e9);
  ExpectMultiplyAdds("inception-v3", 5.71e9);
  ExpectMultiplyAdds("vit", 17.56e9);
}

// (channels · image²)² weights in one layer, few elsewhere.
TEST(ZooVisionTest, TheBridgeIsMostOfIt) {
  const Graph graph = Build("bridge");
  int64_t bridge = 0;
  for (const Parameter& parameter : graph.parameters()) {
    const Tensor& tensor = graph.tensor(parameter.tensor);
    if (tensor.name == "bridge.w") bridge = tensor.elements();
  }
  EXPECT_EQ(bridge, 2048 * 2048);
  EXPECT_EQ(graph.parameter_count(), 4'422'732);
}

// Backward costs twice as much, but for the first layer, whose input has no gradient.
TEST(ZooVisionTest, BackwardIsTwiceForward) {
  for (const char* spec : {"vgg19", "resnet152", "vit?layers=2"}) {
    const Graph graph = Build(spec);
    double backward = 0, first = 0;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::kConv2dInput && op.kind != OpKind::kConv2dWeight) continue;
      backward += FlopsOf(op, op.extents).value;
    }
    double forward = 0;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::kConv2d) continue;
      forward += FlopsOf(op, op.extents).value;
      if (first == 0) first = forward;
    }
    EXPECT_EQ(backward, 2 * forward - first) << spec;
  }
}

TEST(ZooVisionTest, StagesOfVgg) {
  const Graph graph = Build("vgg19", {.batch = 2});
  EXPECT_EQ(TypeOf(graph, "x"), "f32[2,3,224,224]");
  EXPECT_EQ(TypeOf(graph, "conv1_2.relu.y"), "f32[2,64,224,224]");
  EXPECT_EQ(TypeOf(graph, "pool1.y"), "f32[2,64,112,112]");
  EXPECT_EQ(TypeOf(graph, "pool2.y"), "f32[2,128,56,56]");
  EXPECT_EQ(TypeOf(graph, "pool3.y"), "f32[2,256,28,28]");
  EXPECT_EQ(TypeOf(graph, "pool4.y"), "f32[2,512,14,14]");
  EXPECT_EQ(TypeOf(graph, "pool5.y"), "f32[2,512,7,7]");
  EXPECT_EQ(TypeOf(graph, "fc1.w"), "f32[512,7,7,4096]");
  EXPECT_EQ(TypeOf(graph, "fc3.add.y"), "f32[2,1000]");
  EXPECT_EQ(graph.layers().size(), 19U);  // a layer for each of its weights
  EXPECT_EQ(CountOf(graph, OpKind::kConv2d), 16);
  EXPECT_EQ(CountOf(graph, OpKind::kMaxPool), 5);
  // The pool belongs to the convolution before it: less crosses the cut.
  EXPECT_EQ(graph.layers()[2], "conv2_1");
  EXPECT_EQ(OpOf(graph, "pool1").layer, LayerId{1});
}

TEST(ZooVisionTest, StagesOfResnet) {
  const Graph graph = Build("resnet152");
  EXPECT_EQ(TypeOf(graph, "stem.y"), "f32[1,64,112,112]");
  EXPECT_EQ(TypeOf(graph, "stem.pool.y"), "f32[1,64,56,56]");
  EXPECT_EQ(TypeOf(graph, "group1.block2.relu.y"), "f32[1,256,56,56]");
  EXPECT_EQ(TypeOf(graph, "group2.block7.relu.y"), "f32[1,512,28,28]");
  EXPECT_EQ(TypeOf(graph, "group3.block35.relu.y"), "f32[1,1024,14,14]");
  EXPECT_EQ(TypeOf(graph, "group4.block2.relu.y"), "f32[1,2048,7,7]");
  EXPECT_EQ(TypeOf(graph, "head.mean.y"), "f32[1,2048]");
  EXPECT_EQ(graph.layers().size(), 1U + (3 + 8 + 36 + 3) + 1);
  // 152 layers with weights: a stem, three per block, the classifier; and four shortcuts.
  EXPECT_EQ(CountOf(graph, OpKind::kConv2d), 1 + 3 * 50 + 4);
  EXPECT_EQ(CountOf(graph, OpKind::kBatchNorm), 1 + 3 * 50 + 4);
  EXPECT_EQ(CountOf(graph, OpKind::kAdd), 50);
}

// A block that changes the shape has a convolution on its shortcut; the others add their input.
TEST(ZooVisionTest, ShortcutsOfResnet) {
  const Graph graph = Build("resnet152");
  const auto added = [&](const std::string& block) {
    return graph.tensor(OpOf(graph, block + ".res").inputs[1].tensor).name;
  };
  EXPECT_EQ(added("group2.block0"), "group2.block0.shortcut.bn.y");
  EXPECT_EQ(added("group2.block1"), "group2.block0.relu.y");
  EXPECT_EQ(added("group1.block0"), "group1.block0.shortcut.bn.y");  // 64 to 256 channels
  EXPECT_EQ(OpOf(graph, "group1.block0.shortcut").attributes.window.stride, 1);
  EXPECT_EQ(OpOf(graph, "group2.block0.shortcut").attributes.window.stride, 2);
  // The stride is in the 3x3 convolution.
  EXPECT_EQ(OpOf(graph, "group2.block0.conv1").attributes.window.stride, 1);
  EXPECT_EQ(OpOf(graph, "group2.block0.conv2").attributes.window.stride, 2);
  // The gradient of a block's input: through the convolutions and past them, summed in the block.
  const Op& sum = graph.op([&] {
    for (size_t i = 0; i < graph.ops().size(); ++i) {
      if (graph.ops()[i].name.starts_with("group2.block1.conv1.dx.sum")) {
        return OpId{static_cast<int32_t>(i)};
      }
    }
    return OpId{0};
  }());
  EXPECT_EQ(sum.kind, OpKind::kAdd);
  EXPECT_EQ(graph.layers()[static_cast<size_t>(sum.layer.value)], "group2.block1");
  EXPECT_EQ(sum.inputs[0].tensor, OpOf(graph, "group2.block1.relu.dx").outputs[0].tensor);
  EXPECT_EQ(OpOf(graph, "group2.block0.relu.dx").inputs[0].tensor, sum.outputs[0].tensor);
}

TEST(ZooVisionTest, StagesOfInception) {
  const Graph graph = Build("inception-v3");
  EXPECT_EQ(TypeOf(graph, "conv1.y"), "f32[1,32,149,149]");
  EXPECT_EQ(TypeOf(graph, "conv2.y"), "f32[1,32,147,147]");
  EXPECT_EQ(TypeOf(graph, "conv3.y"), "f32[1,64,147,147]");
  EXPECT_EQ(TypeOf(graph, "pool1.y"), "f32[1,64,73,73]");
  EXPECT_EQ(TypeOf(graph, "conv5.y"), "f32[1,192,71,71]");
  EXPECT_EQ(TypeOf(graph, "pool2.y"), "f32[1,192,35,35]");
  EXPECT_EQ(TypeOf(graph, "a0.join.y"), "f32[1,256,35,35]");
  EXPECT_EQ(TypeOf(graph, "a2.join.y"), "f32[1,288,35,35]");
  EXPECT_EQ(TypeOf(graph, "b.join.y"), "f32[1,768,17,17]");
  EXPECT_EQ(TypeOf(graph, "c3.join.y"), "f32[1,768,17,17]");
  EXPECT_EQ(TypeOf(graph, "d.join.y"), "f32[1,1280,8,8]");
  EXPECT_EQ(TypeOf(graph, "e1.join.y"), "f32[1,2048,8,8]");
  EXPECT_EQ(graph.layers().size(), 5U + 3 + 1 + 4 + 1 + 2 + 1);
  EXPECT_EQ(CountOf(graph, OpKind::kConv2d), 94);
  EXPECT_EQ(CountOf(graph, OpKind::kConcat), 11 + 2 * 2);  // of modules, and inside the last two
}

// "b7_1 1x1, b7_2 1x7" of a module: its convolutions in order, with their strides where not 1.
std::string WindowsOf(const Graph& graph, const std::string& module) {
  std::string text;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kConv2d || !op.name.starts_with(module + ".")) continue;
    const Window& window = op.attributes.window;
    text += (text.empty() ? "" : ", ") + op.name.substr(module.size() + 1) + " " +
            std::to_string(window.height) + "x" + std::to_string(window.width);
    if (window.stride != 1) text += "/" + std::to_string(window.stride);
  }
  return text;
}

// Figures 5 to 7 of the paper, as released.
TEST(ZooVisionTest, ModulesOfInception) {
  const Graph graph = Build("inception-v3");
  EXPECT_EQ(WindowsOf(graph, "a0"),
            "b1 1x1, b5_1 1x1, b5_2 5x5, b3_1 1x1, b3_2 3x3, b3_3 3x3, bp 1x1");
  EXPECT_EQ(WindowsOf(graph, "b"), "b3 3x3/2, b33_1 1x1, b33_2 3x3, b33_3 3x3/2");
  EXPECT_EQ(WindowsOf(graph, "c0"),
            "b1 1x1, b7_1 1x1, b7_2 1x7, b7_3 7x1, b77_1 1x1, b77_2 7x1, b77_3 1x7, b77_4 7x1, "
            "b77_5 1x7, bp 1x1");
  EXPECT_EQ(WindowsOf(graph, "d"),
            "b3_1 1x1, b3_2 3x3/2, b7_1 1x1, b7_2 1x7, b7_3 7x1, b7_4 3x3/2");
  EXPECT_EQ(WindowsOf(graph, "e0"),
            "b1 1x1, b3_1 1x1, b33_1 1x1, b33_2 3x3, b3_row 1x3, b3_column 3x1, b33_row 1x3, "
            "b33_column 3x1, bp 1x1");
}

TEST(ZooVisionTest, StagesOfVit) {
  const Graph graph = Build("vit", {.batch = 3});
  EXPECT_EQ(TypeOf(graph, "embed.y"), "f32[3,768,14,14]");
  EXPECT_EQ(TypeOf(graph, "embed.class.y"), "f32[3,197,768]");
  EXPECT_EQ(TypeOf(graph, "block11.res2.y"), "f32[3,197,768]");
  EXPECT_EQ(TypeOf(graph, "head.first.y"), "f32[3,768]");
  EXPECT_EQ(graph.layers().size(), 14U);
  EXPECT_FALSE(OpOf(graph, "block0.attn").attributes.causal);
  // Normalised before each branch, and once more at the end.
  EXPECT_EQ(CountOf(graph, OpKind::kLayerNorm), 2 * 12 + 1);
  EXPECT_EQ(OpOf(graph, "block0.res1").inputs[0].tensor,
            OpOf(graph, "block0.ln1").inputs[0].tensor);
}

TEST(ZooVisionTest, DropoutByKey) {
  EXPECT_EQ(CountOf(Build("vgg19"), OpKind::kDropout), 2);
  EXPECT_EQ(OpOf(Build("vgg19?dropout=30"), "fc1.drop").attributes.rate, 0.3);
  EXPECT_EQ(CountOf(Build("vgg19?dropout=0"), OpKind::kDropout), 0);
  EXPECT_EQ(CountOf(Build("inception-v3"), OpKind::kDropout), 1);
  EXPECT_EQ(CountOf(Build("inception-v3?dropout=0"), OpKind::kDropout), 0);
  EXPECT_EQ(CountOf(Build("vit"), OpKind::kDropout), 0);
  EXPECT_EQ(CountOf(Build("vit?layers=3&dropout=10"), OpKind::kDropout), 1 + 2 * 3);
}

TEST(ZooVisionTest, WidthScalesEveryChannel) {
  EXPECT_EQ(TypeOf(Build("vgg19?width=2&image=32"), "pool5.y"), "f32[1,16,1,1]");
  EXPECT_EQ(TypeOf(Build("resnet152?width=2"), "group4.block2.relu.y"), "f32[1,64,7,7]");
  EXPECT_EQ(TypeOf(Build("inception-v3?width=16"), "e1.join.y"), "f32[1,1024,8,8]");
  // At least one channel of each branch.
  EXPECT_EQ(TypeOf(Build("inception-v3?width=1&image=75"), "a0.b1.y"), "f32[1,2,7,7]");
}

// The smallest image of each just fits.
TEST(ZooVisionTest, ImagesThatAreTooSmall) {
  EXPECT_EQ(TypeOf(Build("vgg19?image=32"), "pool5.y"), "f32[1,512,1,1]");
  EXPECT_EQ(TypeOf(Build("resnet152?image=32"), "group4.block2.relu.y"), "f32[1,2048,1,1]");
  EXPECT_EQ(TypeOf(Build("inception-v3?image=75"), "e1.join.y"), "f32[1,2048,1,1]");
  EXPECT_EQ(ErrorOf("vgg19?image=31"),
            "model \"vgg19?image=31\": image = 31 is too small for this model\n"
            "  hint: at least 32 pixels");
  EXPECT_THAT(ErrorOf("resnet152?image=31"), HasSubstr("at least 32 pixels"));
  EXPECT_THAT(ErrorOf("inception-v3?image=74"), HasSubstr("at least 75 pixels"));
}

TEST(ZooVisionTest, PatchesAndHeadsMustDivide) {
  EXPECT_EQ(ErrorOf("vit?patch=15"),
            "model \"vit?patch=15\": image = 224 is not a multiple of patch = 15\n"
            "  hint: the image is cut into whole patches");
  EXPECT_THAT(ErrorOf("vit?image=16&patch=32"), HasSubstr("not a multiple of patch"));
  EXPECT_THAT(ErrorOf("vit?heads=7"), HasSubstr("hidden = 768 is not a multiple of heads = 7"));
}

TEST(ZooVisionTest, OutOfRange) {
  EXPECT_THAT(ErrorOf("vgg19?dropout=91"), HasSubstr("dropout = 91 is out of range\n  hint: "
                                                     "expected 0 to 90"));
  EXPECT_THAT(ErrorOf("vgg19?image=0"), HasSubstr("image = 0 is out of range"));
  EXPECT_THAT(ErrorOf("resnet152?blocks3=0"), HasSubstr("blocks3 = 0 is out of range"));
  EXPECT_THAT(ErrorOf("resnet152?blocks5=1"), HasSubstr("no parameter \"blocks5\""));
  EXPECT_THAT(ErrorOf("inception-v3?width=0"), HasSubstr("width = 0 is out of range"));
  EXPECT_THAT(ErrorOf("vgg19?image=1048576&width=1048576"), HasSubstr("is too large"));
}

}  // namespace
}  // namespace heddle
