// Convolution, pooling and batch normalisation.
#include <ATen/ATen.h>

#include "run/torch/kernel_call.h"

namespace heddle::kernels {
namespace {

struct WindowLists {
  explicit WindowLists(const Window& w)
      : size{w.height, w.width}, stride{w.stride, w.stride}, padding{w.pad_height, w.pad_width} {}
  std::vector<int64_t> size, stride, padding;
  std::vector<int64_t> dilation{1, 1};
};

// libtorch asks for a tensor where only its shape matters: one element, repeated.
at::Tensor OnlyShape(const std::vector<int64_t>& shape, const at::Tensor& like) {
  return at::zeros({1}, like.options()).expand(shape);
}

// [c] to [1, c, 1, 1].
at::Tensor PerChannel(const at::Tensor& v) { return v.view({1, -1, 1, 1}); }

// Samples times positions that are normalised together, here or on other devices.
double CountOf(const Call& c) {
  return static_cast<double>(c.Whole('b') * c.Whole('h') * c.Whole('w'));
}

// What this device's mean over samples and positions counts for.
double ShareOf(const Call& c) {
  const at::Tensor& x = c.in[0];
  return static_cast<double>(x.size(0) * x.size(2) * x.size(3)) / CountOf(c);
}

at::Tensor InverseDeviation(const at::Tensor& variance, double epsilon) {
  return (variance + epsilon).rsqrt();
}

}  // namespace

Tensors Conv2d(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  return {at::convolution(c.in[0], c.in[1], {}, w.stride, w.padding, w.dilation, false, {0, 0}, 1)};
}

// The transposed convolution. Where the stride does not divide, the last rows and columns of the
// input were in no window or in fewer: they are asked for as output padding.
Tensors Conv2dInput(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  const std::vector<int64_t> shape = c.OutputShape(0);
  std::vector<int64_t> rest;
  for (size_t k = 0; k < 2; ++k) {
    const int64_t reached = (c.in[0].size(static_cast<int64_t>(k) + 2) - 1) * w.stride[k] -
                            2 * w.padding[k] + w.size[k];
    rest.push_back(shape[k + 2] - reached);
  }
  return {at::convolution(c.in[0], c.in[1], {}, w.stride, w.padding, w.dilation, true, rest, 1)};
}

Tensors Conv2dWeight(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  const at::Tensor weight =
      at::empty(c.OutputShape(0), c.in[0].options());  // its values do not matter
  return {std::get<1>(at::convolution_backward(c.in[0], c.in[1], weight, at::OptionalIntArrayRef(),
                                               w.stride, w.padding, w.dilation, false, {0, 0}, 1,
                                               {false, true, false}))};
}

Tensors MaxPool(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  auto [y, where] =
      at::max_pool2d_with_indices(c.in[0], w.size, w.stride, w.padding, w.dilation, false);
  return {y, where};
}

Tensors MaxPoolInput(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  return {at::max_pool2d_with_indices_backward(c.in[0], OnlyShape(c.OutputShape(0), c.in[0]),
                                               w.size, w.stride, w.padding, w.dilation, false,
                                               c.in[1])};
}

Tensors AveragePool(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  return {at::avg_pool2d(c.in[0], w.size, w.stride, w.padding, false, true)};
}

Tensors AveragePoolInput(const Call& c) {
  const WindowLists w(c.op.attributes.window);
  return {at::avg_pool2d_backward(c.in[0], OnlyShape(c.OutputShape(0), c.in[0]), w.size, w.stride,
                                  w.padding, false, true, c10::nullopt)};
}

Tensors Mean(const Call& c) { return {c.in[0].mean({2, 3})}; }

Tensors MeanInput(const Call& c) {
  const std::vector<int64_t> shape = c.OutputShape(0);
  const at::Tensor share = c.in[0] / static_cast<double>(shape[2] * shape[3]);
  return {share.unsqueeze(-1).unsqueeze(-1).expand(shape).contiguous()};
}

Tensors Concat(const Call& c) { return {at::cat(c.in, 1)}; }

Tensors Slice(const Call& c) {
  const int64_t channels = c.graph.tensor(c.op.outputs[0].tensor).shape[1];
  return {c.in[0].narrow(1, c.op.attributes.offset, channels).contiguous()};
}

Tensors BatchMean(const Call& c) { return {c.in[0].mean({0, 2, 3}).mul_(ShareOf(c))}; }

// About the given mean, which may be of more samples than are here.
Tensors BatchVariance(const Call& c) {
  auto [variance, mean] = at::var_mean(c.in[0], {0, 2, 3}, /*unbiased=*/false);
  return {variance.add_((mean - c.in[1]).square()).mul_(ShareOf(c))};
}

Tensors BatchNorm(const Call& c) {
  const at::Tensor factor = c.in[3] * InverseDeviation(c.in[2], c.op.attributes.epsilon);
  const at::Tensor constant = c.in[4] - c.in[1] * factor;
  return {(c.in[0] * PerChannel(factor)).add_(PerChannel(constant))};
}

// Sample by sample, to need no temporary of the whole size.
Tensors BatchNormSums(const Call& c) {
  const at::Tensor& dy = c.in[0];
  const at::Tensor& x = c.in[1];
  const at::Tensor mean = c.in[2].view({-1, 1, 1});
  at::Tensor product = at::zeros_like(c.in[2]);
  for (int64_t sample = 0; sample < x.size(0); ++sample) {
    product.add_((x[sample] - mean).mul_(dy[sample]).sum({1, 2}));
  }
  return {dy.sum({0, 2, 3}), product.mul_(InverseDeviation(c.in[3], c.op.attributes.epsilon))};
}

// dx = f (dy − s/n) − f r (x − mean) p/n, with f = scale · r: coefficients per channel of dy and x.
Tensors BatchNormInput(const Call& c) {
  const double count = CountOf(c);
  const at::Tensor r = InverseDeviation(c.in[3], c.op.attributes.epsilon);
  const at::Tensor of_dy = c.in[4] * r;
  const at::Tensor of_x = -of_dy * r * c.in[6] / count;
  const at::Tensor constant = -of_dy * c.in[5] / count - of_x * c.in[2];
  at::Tensor dx = c.in[0] * PerChannel(of_dy);
  return {dx.addcmul_(c.in[1], PerChannel(of_x)).add_(PerChannel(constant))};
}

}  // namespace heddle::kernels
