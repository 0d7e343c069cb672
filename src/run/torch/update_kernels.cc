// Optimizers. They walk their tensors in pieces that fit the cache, so that several passes over a
// piece cost little more than one.
#include <ATen/ATen.h>

#include <cmath>
#include <functional>

#include "run/torch/kernel_call.h"

namespace heddle::kernels {
namespace {

constexpr int64_t kPiece = 1 << 15;

// Runs `work` on the same piece of every tensor.
void InPieces(const Tensors& tensors, const std::function<void(const Tensors&)>& work) {
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.view({-1}));
  Tensors piece(flat.size());
  for (int64_t first = 0; first < flat[0].size(0); first += kPiece) {
    const int64_t count = std::min(kPiece, flat[0].size(0) - first);
    for (size_t t = 0; t < flat.size(); ++t) piece[t] = flat[t].narrow(0, first, count);
    work(piece);
  }
}

// How much all gradients shrink: the squared norm of all of them is the last input.
double ClipFactor(const Call& c) {
  constexpr double kEpsilon = 1e-6;  // as in libtorch
  const double most = c.op.attributes.clip;
  if (most <= 0) return 1;
  const double norm = std::sqrt(c.in.back().item<double>());
  return std::min(1.0, most / (norm + kEpsilon));
}

// The gradient, clipped in place.
at::Tensor Gradient(const Call& c) {
  const double factor = ClipFactor(c);
  at::Tensor gradient = c.in[1];
  return factor == 1 ? gradient : gradient.mul_(factor);
}

}  // namespace

Tensors SquareSum(const Call& c) {
  const at::Tensor flat = c.in[0].reshape({-1});
  return {at::dot(flat, flat)};
}

Tensors Sgd(const Call& c) {
  at::Tensor weight = c.in[0];
  weight.add_(Gradient(c), -c.context.learning_rate);
  return {};
}

Tensors Momentum(const Call& c) {
  constexpr double kMomentum = 0.9;
  InPieces({c.in[0], Gradient(c), c.in[2]}, [&](const Tensors& t) {
    t[2].mul_(kMomentum).add_(t[1]);
    t[0].add_(t[2], -c.context.learning_rate);
  });
  return {};
}

// Kingma, Ba 2015, with the usual constants; with decay, Loshchilov, Hutter 2019.
Tensors Adam(const Call& c) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  const auto step = static_cast<double>(c.context.update + 1);
  const double rate = c.context.learning_rate;
  const double bias1 = 1 - std::pow(kBeta1, step);
  const double bias2 = std::sqrt(1 - std::pow(kBeta2, step));
  const double decay = c.op.attributes.decay;
  InPieces({c.in[0], Gradient(c), c.in[2], c.in[3]}, [&](const Tensors& t) {
    if (decay > 0) t[0].mul_(1 - rate * decay);
    t[2].mul_(kBeta1).add_(t[1], 1 - kBeta1);
    t[3].mul_(kBeta2).addcmul_(t[1], t[1], 1 - kBeta2);
    const at::Tensor denominator = t[3].sqrt().div_(bias2).add_(kEpsilon);
    t[0].addcdiv_(t[2], denominator, -rate / bias1);
  });
  return {};
}

}  // namespace heddle::kernels
