// The builder's ops on images.
#include "model/graph_builder.h"

namespace heddle {
namespace {

int64_t OutputExtent(int64_t input, int64_t kernel, int64_t padding, int64_t stride) {
  const int64_t extent = (input + 2 * padding - kernel) / stride + 1;
  HEDDLE_CHECK(input + 2 * padding >= kernel);
  return extent;
}

// [b, channels, y, x] of what a window makes of `x`.
std::vector<int64_t> OutputShape(const Tensor& x, int64_t channels, const Window& window) {
  return {x.shape[0], channels,
          OutputExtent(x.shape[2], window.height, window.pad_height, window.stride),
          OutputExtent(x.shape[3], window.width, window.pad_width, window.stride)};
}

OpAttributes WindowOnly(const Window& window) {
  OpAttributes attributes;
  attributes.window = window;
  return attributes;
}

}  // namespace

TensorId GraphBuilder::Conv2d(const std::string& name, TensorId x, TensorId weight, Window window) {
  const int64_t out = tensor(weight).shape[0];
  window.height = tensor(weight).shape[2];
  window.width = tensor(weight).shape[3];
  return Activation(OpKind::kConv2d, name, "bcHW,ocKL->boYX|boYXcKL", {x, weight},
                    OutputShape(tensor(x), out, window), WindowOnly(window));
}

TensorId GraphBuilder::MaxPool(const std::string& name, TensorId x, Window window) {
  const std::vector<int64_t> shape = OutputShape(tensor(x), tensor(x).shape[1], window);
  return AddOp(OpKind::kMaxPool, name, "bcHW->bcYX,bcYX|bcHW", {x},
               {{name + ".y", dtype_, Role::kActivation, shape},
                {name + ".where", DType::kI64, Role::kActivation, shape}},
               Phase::kForward, CurrentLayer(), WindowOnly(window))[0];
}

TensorId GraphBuilder::AveragePool(const std::string& name, TensorId x, Window window) {
  return Activation(OpKind::kAveragePool, name, "bcHW->bcYX|bcHW", {x},
                    OutputShape(tensor(x), tensor(x).shape[1], window), WindowOnly(window));
}

TensorId GraphBuilder::Mean(const std::string& name, TensorId x) {
  return Activation(OpKind::kMean, name, "bcHW->bc", {x});
}

TensorId GraphBuilder::Concat(const std::string& name, const std::vector<TensorId>& parts) {
  static constexpr std::string_view kChannels = "ACDEFGIJ";
  HEDDLE_CHECK(parts.size() <= kChannels.size());
  std::string signature;
  std::vector<int64_t> shape = tensor(parts[0]).shape;
  shape[1] = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    signature += (i > 0 ? ",b" : "b") + std::string(1, kChannels[i]) + "yx";
    shape[1] += tensor(parts[i]).shape[1];
  }
  return Activation(OpKind::kConcat, name, signature + "->bOyx|bOyx", parts, shape);
}

// Statistics are ops of their own: over a share of the samples they are those of the share.
TensorId GraphBuilder::BatchNorm(const std::string& name, TensorId x, TensorId scale,
                                 TensorId shift, double epsilon) {
  OpAttributes attributes;
  attributes.epsilon = epsilon;
  const auto statistic = [&](OpKind kind, const std::string& what, std::string_view signature,
                             const std::vector<TensorId>& inputs) {
    return AddOp(kind, name + "." + what, signature, inputs,
                 {{name + "." + what + ".y", DType::kF32, Role::kActivation}}, Phase::kForward,
                 CurrentLayer())[0];
  };
  const TensorId mean = statistic(OpKind::kBatchMean, "mean", "bchw->c", {x});
  const TensorId variance = statistic(OpKind::kBatchVariance, "variance", "bchw,c->c", {x, mean});
  return Activation(OpKind::kBatchNorm, name, "bchw,c,c,c,c->bchw",
                    {x, mean, variance, scale, shift}, {}, attributes);
}

}  // namespace heddle
