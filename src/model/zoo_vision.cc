// Models of images.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/zoo_blocks.h"
#include "model/zoo_families.h"

namespace heddle {
namespace {

constexpr int64_t kColours = 3;

struct ImageInputs {
  TensorId x, targets;
};

ImageInputs Inputs(GraphBuilder& g, const ModelParameters& p) {
  const int64_t image = p.at("image");
  return {g.Input("x", g.dtype(), {kColours, image, image}), g.Input("targets", DType::kI64, {})};
}

TensorId Convolve(GraphBuilder& g, const std::string& name, TensorId x, int64_t out,
                  const Window& window) {
  const int64_t in = g.tensor(x).shape[1];
  const double deviation = HeDeviation(in * window.height * window.width);
  const TensorId w = g.Parameter(name + ".w", {out, in, window.height, window.width}, 0, deviation);
  return g.Conv2d(name, x, w, window);
}

// Convolution, batch normalisation, and a ReLU unless told otherwise.
TensorId ConvNorm(GraphBuilder& g, const std::string& name, TensorId x, int64_t out,
                  const Window& window, bool relu = true, double epsilon = 1e-5) {
  const TensorId y = Convolve(g, name, x, out, window);
  const TensorId scale = g.Parameter(name + ".bn.scale", {out}, 1, 0);
  const TensorId shift = g.Parameter(name + ".bn.shift", {out}, 0, 0);
  const TensorId normal = g.BatchNorm(name + ".bn", y, scale, shift, epsilon);
  return relu ? g.Relu(name + ".relu", normal) : normal;
}

Status TooSmall(const ModelParameters& p, int64_t least) {
  return BadInput("", fmt::format("image = {} is too small for this model", p.at("image")),
                  fmt::format("at least {} pixels", least));
}

}  // namespace

// Simonyan, Zisserman 2015, configuration E.
Status WriteVgg19(GraphBuilder& g, const ModelParameters& p) {
  constexpr int64_t kShrinks = 32;
  struct Group {
    int convolutions;
    int64_t widths;
  };
  constexpr std::array<Group, 5> kGroups = {{{2, 1}, {2, 2}, {4, 4}, {4, 8}, {4, 8}}};
  if (p.at("image") < kShrinks) return TooSmall(p, kShrinks);
  const ImageInputs inputs = Inputs(g, p);
  TensorId x = inputs.x;
  for (size_t group = 0; group < kGroups.size(); ++group) {
    for (int k = 0; k < kGroups[group].convolutions; ++k) {
      const std::string name = fmt::format("conv{}_{}", group + 1, k + 1);
      const int64_t out = p.at("width") * kGroups[group].widths;
      g.BeginLayer(name);
      x = Convolve(g, name, x, out, {3, 3, 1, 1, 1});
      x = g.BiasAdd(name + ".add", "bcyx,c->bcyx", x, g.Parameter(name + ".bias", {out}, 0, 0));
      x = g.Relu(name + ".relu", x);
    }
    x = g.MaxPool(fmt::format("pool{}", group + 1), x, {2, 2, 2, 0, 0});
  }
  const double dropout = static_cast<double>(p.at("dropout")) / 100;
  const int64_t hidden = p.at("hidden");
  const std::vector<int64_t> features = g.tensor(x).shape;
  const int64_t fan_in = features[1] * features[2] * features[3];
  g.BeginLayer("fc1");
  x = Linear(g, "fc1", x, "bcyx,cyxn->bn", {features[1], features[2], features[3], hidden},
             {hidden}, HeDeviation(fan_in));
  x = g.Dropout("fc1.drop", g.Relu("fc1.relu", x), dropout);
  g.BeginLayer("fc2");
  x = Linear(g, "fc2", x, "bk,kn->bn", {hidden, hidden}, {hidden}, HeDeviation(hidden));
  x = g.Dropout("fc2.drop", g.Relu("fc2.relu", x), dropout);
  g.BeginLayer("fc3");
  x = Linear(g, "fc3", x, "bk,kn->bn", {hidden, p.at("classes")}, {p.at("classes")});
  g.CrossEntropy("xent", x, inputs.targets);
  return Ok();
}

// He et al. 2016, with the stride in the 3x3 convolution (as implementations do now).
Status WriteResnet(GraphBuilder& g, const ModelParameters& p) {
  constexpr int64_t kExpansion = 4;
  constexpr int64_t kShrinks = 32;
  if (p.at("image") < kShrinks) return TooSmall(p, kShrinks);
  const ImageInputs inputs = Inputs(g, p);
  TensorId x = inputs.x;
  g.BeginLayer("stem");
  x = ConvNorm(g, "stem", x, p.at("width"), {7, 7, 2, 3, 3});
  x = g.MaxPool("stem.pool", x, {3, 3, 2, 1, 1});
  int64_t width = p.at("width");
  for (int group = 1; group <= 4; ++group) {
    const int64_t blocks = p.at(fmt::format("blocks{}", group));
    for (int64_t k = 0; k < blocks; ++k) {
      const std::string name = fmt::format("group{}.block{}", group, k);
      const int64_t stride = group > 1 && k == 0 ? 2 : 1;
      g.BeginLayer(name);
      TensorId y = ConvNorm(g, name + ".conv1", x, width, {1, 1});
      y = ConvNorm(g, name + ".conv2", y, width, {3, 3, stride, 1, 1});
      y = ConvNorm(g, name + ".conv3", y, width * kExpansion, {1, 1}, /*relu=*/false);
      const bool same = g.tensor(x).shape == g.tensor(y).shape;
      const TensorId shortcut = same ? x
                                     : ConvNorm(g, name + ".shortcut", x, width * kExpansion,
                                                {1, 1, stride}, /*relu=*/false);
      x = g.Relu(name + ".relu", g.Add(name + ".res", y, shortcut));
    }
    width *= 2;
  }
  g.BeginLayer("head");
  x = g.Mean("head.mean", x);
  const int64_t features = g.tensor(x).shape[1];
  x = Linear(g, "head.fc", x, "bk,kn->bn", {features, p.at("classes")}, {p.at("classes")});
  g.CrossEntropy("xent", x, inputs.targets);
  return Ok();
}

// Convolutions, one linear layer that connects every place of the map with every other, and
// convolutions again: the plain form of what joins the two halves of a context encoder (Pathak et
// al. 2016), here with a classifier.
Status WriteBridge(GraphBuilder& g, const ModelParameters& p) {
  const ImageInputs inputs = Inputs(g, p);
  const auto convolve = [&](const std::string& name, TensorId x, int64_t out) {
    g.BeginLayer(name);
    x = Convolve(g, name, x, out, {3, 3, 1, 1, 1});
    x = g.BiasAdd(name + ".add", "bcyx,c->bcyx", x, g.Parameter(name + ".bias", {out}, 0, 0));
    return g.Relu(name + ".relu", x);
  };
  const int64_t image = p.at("image"), channels = p.at("channels");
  TensorId x = inputs.x;
  for (int64_t k = 0; k < p.at("layers"); ++k) {
    x = convolve(fmt::format("before{}", k), x, p.at("width"));
  }
  x = convolve("narrow", x, channels);
  g.BeginLayer("bridge");
  x = Linear(g, "bridge", x, "bcyx,cyxdij->bdij", {channels, image, image, channels, image, image},
             {channels, image, image}, HeDeviation(channels * image * image));
  x = g.Relu("bridge.relu", x);
  for (int64_t k = 0; k < p.at("layers"); ++k) {
    x = convolve(fmt::format("after{}", k), x, p.at("width"));
  }
  g.BeginLayer("head");
  x = g.Mean("head.mean", x);
  x = Linear(g, "head.fc", x, "bk,kn->bn", {p.at("width"), p.at("classes")}, {p.at("classes")});
  g.CrossEntropy("xent", x, inputs.targets);
  return Ok();
}

// Dosovitskiy et al. 2021.
Status WriteVit(GraphBuilder& g, const ModelParameters& p) {
  BlockOptions block;
  block.hidden = p.at("hidden");
  block.heads = p.at("heads");
  block.dropout = static_cast<double>(p.at("dropout")) / 100;
  block.epsilon = 1e-6;
  HEDDLE_RETURN_IF_ERROR(CheckHeads(block.hidden, block.heads));
  const int64_t patch = p.at("patch");
  if (p.at("image") % patch != 0) {
    return BadInput("",
                    fmt::format("image = {} is not a multiple of patch = {}", p.at("image"), patch),
                    "the image is cut into whole patches");
  }
  const ImageInputs inputs = Inputs(g, p);
  TensorId x = inputs.x;
  g.BeginLayer("embed");
  x = Convolve(g, "embed", x, block.hidden, {patch, patch, patch, 0, 0});
  x = g.BiasAdd("embed.add", "bcyx,c->bcyx", x, g.Parameter("embed.bias", {block.hidden}, 0, 0));
  x = g.ClassToken("embed.class", x, g.Parameter("embed.token", {block.hidden}));
  const int64_t positions = g.tensor(x).shape[1];
  x = g.BiasAdd("embed.position", "bsh,sh->bsh", x,
                g.Parameter("embed.positions", {positions, block.hidden}));
  x = g.Dropout("embed.drop", x, block.dropout);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("block{}", i);
    g.BeginLayer(name);
    x = TransformerBlock(g, name, x, block);
  }
  g.BeginLayer("head");
  x = g.SelectFirst("head.first", Norm(g, "head.ln", x, block.hidden, block.epsilon));
  x = Linear(g, "head.fc", x, "bk,kn->bn", {block.hidden, p.at("classes")}, {p.at("classes")});
  g.CrossEntropy("xent", x, inputs.targets);
  return Ok();
}

namespace {

// The modules of Szegedy et al. 2016: branches side by side, their channels joined.
class Inception {
 public:
  Inception(GraphBuilder& g, int64_t width) : g_(g), width_(width) {}

  TensorId Conv(const std::string& name, TensorId x, int64_t out, const Window& window) {
    constexpr int64_t kPublishedWidth = 32;  // of the first convolution
    const int64_t channels = std::max<int64_t>(1, out * width_ / kPublishedWidth);
    return ConvNorm(g_, name, x, channels, window, /*relu=*/true, /*epsilon=*/1e-3);
  }

  // 35x35.
  TensorId A(const std::string& name, TensorId x, int64_t pooled) {
    const TensorId one = Conv(name + ".b1", x, 64, {1, 1});
    TensorId five = Conv(name + ".b5_1", x, 48, {1, 1});
    five = Conv(name + ".b5_2", five, 64, {5, 5, 1, 2, 2});
    TensorId three = Conv(name + ".b3_1", x, 64, {1, 1});
    three = Conv(name + ".b3_2", three, 96, {3, 3, 1, 1, 1});
    three = Conv(name + ".b3_3", three, 96, {3, 3, 1, 1, 1});
    return g_.Concat(name + ".join", {one, five, three, Pooled(name, x, pooled)});
  }

  // 35x35 to 17x17.
  TensorId B(const std::string& name, TensorId x) {
    const TensorId three = Conv(name + ".b3", x, 384, {3, 3, 2});
    TensorId twice = Conv(name + ".b33_1", x, 64, {1, 1});
    twice = Conv(name + ".b33_2", twice, 96, {3, 3, 1, 1, 1});
    twice = Conv(name + ".b33_3", twice, 96, {3, 3, 2});
    return g_.Concat(name + ".join", {three, twice, g_.MaxPool(name + ".pool", x, {3, 3, 2})});
  }

  // 17x17, with rows and columns of seven.
  TensorId C(const std::string& name, TensorId x, int64_t c7) {
    const Window row{1, 7, 1, 0, 3}, column{7, 1, 1, 3, 0};
    const TensorId one = Conv(name + ".b1", x, 192, {1, 1});
    TensorId seven = Conv(name + ".b7_1", x, c7, {1, 1});
    seven = Conv(name + ".b7_2", seven, c7, row);
    seven = Conv(name + ".b7_3", seven, 192, column);
    TensorId twice = Conv(name + ".b77_1", x, c7, {1, 1});
    twice = Conv(name + ".b77_2", twice, c7, column);
    twice = Conv(name + ".b77_3", twice, c7, row);
    twice = Conv(name + ".b77_4", twice, c7, column);
    twice = Conv(name + ".b77_5", twice, 192, row);
    return g_.Concat(name + ".join", {one, seven, twice, Pooled(name, x, 192)});
  }

  // 17x17 to 8x8.
  TensorId D(const std::string& name, TensorId x) {
    TensorId three = Conv(name + ".b3_1", x, 192, {1, 1});
    three = Conv(name + ".b3_2", three, 320, {3, 3, 2});
    TensorId seven = Conv(name + ".b7_1", x, 192, {1, 1});
    seven = Conv(name + ".b7_2", seven, 192, {1, 7, 1, 0, 3});
    seven = Conv(name + ".b7_3", seven, 192, {7, 1, 1, 3, 0});
    seven = Conv(name + ".b7_4", seven, 192, {3, 3, 2});
    return g_.Concat(name + ".join", {three, seven, g_.MaxPool(name + ".pool", x, {3, 3, 2})});
  }

  // 8x8, with branches that split once more.
  TensorId E(const std::string& name, TensorId x) {
    const TensorId one = Conv(name + ".b1", x, 320, {1, 1});
    const TensorId three = Conv(name + ".b3_1", x, 384, {1, 1});
    TensorId twice = Conv(name + ".b33_1", x, 448, {1, 1});
    twice = Conv(name + ".b33_2", twice, 384, {3, 3, 1, 1, 1});
    return g_.Concat(name + ".join", {one, RowAndColumn(name + ".b3", three),
                                      RowAndColumn(name + ".b33", twice), Pooled(name, x, 192)});
  }

 private:
  TensorId Pooled(const std::string& name, TensorId x, int64_t out) {
    return Conv(name + ".bp", g_.AveragePool(name + ".pool", x, {3, 3, 1, 1, 1}), out, {1, 1});
  }

  TensorId RowAndColumn(const std::string& name, TensorId x) {
    const TensorId row = Conv(name + "_row", x, 384, {1, 3, 1, 0, 1});
    const TensorId column = Conv(name + "_column", x, 384, {3, 1, 1, 1, 0});
    return g_.Concat(name + ".join", {row, column});
  }

  GraphBuilder& g_;
  int64_t width_;
};

}  // namespace

// Szegedy et al. 2016, without the auxiliary classifier.
Status WriteInception(GraphBuilder& g, const ModelParameters& p) {
  constexpr int64_t kLeast = 75;
  if (p.at("image") < kLeast) return TooSmall(p, kLeast);
  const ImageInputs inputs = Inputs(g, p);
  TensorId x = inputs.x;
  Inception inception(g, p.at("width"));
  const auto stem = [&](const std::string& name, int64_t out, const Window& window) {
    g.BeginLayer(name);
    x = inception.Conv(name, x, out, window);
  };
  stem("conv1", 32, {3, 3, 2});
  stem("conv2", 32, {3, 3});
  stem("conv3", 64, {3, 3, 1, 1, 1});
  x = g.MaxPool("pool1", x, {3, 3, 2});
  stem("conv4", 80, {1, 1});
  stem("conv5", 192, {3, 3});
  x = g.MaxPool("pool2", x, {3, 3, 2});
  constexpr std::array<int64_t, 3> kPooled = {32, 64, 64};
  constexpr std::array<int64_t, 4> kSevens = {128, 160, 160, 192};
  const auto module = [&](const std::string& name) {
    g.BeginLayer(name);
    return name;
  };
  for (size_t k = 0; k < kPooled.size(); ++k) {
    x = inception.A(module(fmt::format("a{}", k)), x, kPooled[k]);
  }
  x = inception.B(module("b"), x);
  for (size_t k = 0; k < kSevens.size(); ++k) {
    x = inception.C(module(fmt::format("c{}", k)), x, kSevens[k]);
  }
  x = inception.D(module("d"), x);
  for (int k = 0; k < 2; ++k) x = inception.E(module(fmt::format("e{}", k)), x);
  g.BeginLayer("head");
  x = g.Dropout("head.drop", g.Mean("head.mean", x), static_cast<double>(p.at("dropout")) / 100);
  const int64_t features = g.tensor(x).shape[1];
  x = Linear(g, "head.fc", x, "bk,kn->bn", {features, p.at("classes")}, {p.at("classes")});
  g.CrossEntropy("xent", x, inputs.targets);
  return Ok();
}

}  // namespace heddle
