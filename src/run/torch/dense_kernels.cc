// Products, element-wise functions, layer normalisation and the loss.
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <optional>

#include "base/philox.h"
#include "run/torch/kernel_call.h"

namespace heddle::kernels {
namespace {

// An einsum as one matrix product, when each operand's axes fall into two runs: letters of y that
// come from this operand, and contracted ones.
struct Product {
  bool a_transposed = false;  // a is [k, m] rather than [m, k]
  bool b_transposed = false;  // b is [n, k] rather than [k, n]
  bool y_transposed = false;  // y is [n, m]
  std::string m, n, k;
};

std::optional<Product> AsProduct(const std::string& a, const std::string& b, const std::string& y) {
  Product p;
  for (const char letter : y) {
    const bool in_a = a.find(letter) != std::string::npos;
    const bool in_b = b.find(letter) != std::string::npos;
    if (in_a == in_b) return std::nullopt;  // a batch of products
    (in_a ? p.m : p.n) += letter;
  }
  for (const char letter : a) {
    if (b.find(letter) != std::string::npos) p.k += letter;
  }
  p.a_transposed = a != p.m + p.k;
  p.b_transposed = b != p.k + p.n;
  p.y_transposed = y != p.m + p.n;
  const bool matches = (!p.a_transposed || a == p.k + p.m) && (!p.b_transposed || b == p.n + p.k) &&
                       (!p.y_transposed || y == p.n + p.m);
  return matches ? std::optional(p) : std::nullopt;
}

// The operand as a matrix with the given letters as rows.
at::Tensor AsMatrix(const at::Tensor& tensor, const std::string& letters, const std::string& rows,
                    bool transposed) {
  int64_t height = 1, width = 1;
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const bool row = rows.find(letters[axis]) != std::string::npos;
    (row ? height : width) *= tensor.size(static_cast<int64_t>(axis));
  }
  return transposed ? tensor.reshape({width, height}).t() : tensor.reshape({height, width});
}

// The second operand with length-1 axes where the first has letters it lacks.
at::Tensor Broadcast(const std::string& wide, const std::string& narrow, const at::Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const char letter : wide) {
    const size_t at = narrow.find(letter);
    shape.push_back(at == std::string::npos ? 1 : tensor.size(static_cast<int64_t>(at)));
  }
  return tensor.view(shape);
}

// Each of the batch's samples times positions counts equally, whatever part is here.
double LossScale(const Call& c) {
  double count = static_cast<double>(c.context.batch);
  for (const char letter : c.op.inputs[1].letters.substr(1)) {
    count *= static_cast<double>(c.Whole(letter));
  }
  return 1 / count;
}

// Calls run(first, at, count) for every run of elements that lie one after the other in the step's
// whole tensor, from `first` on, and from `at` on here.
template <class Run>
void ForRuns(const Call& c, const Run& run) {
  const std::string& letters = c.op.outputs[0].letters;
  // A run goes through the last axes, up to and with the last one that is cut, or the first.
  size_t outer = letters.size() - 1;
  int64_t stride = 1;
  for (; outer > 0 && !c.Cut(letters[outer]); --outer) stride *= c.Whole(letters[outer]);
  const Range part = c.Part(letters[outer]);
  const int64_t count = part.size() * stride;
  const int64_t step = c.Whole(letters[outer]) * stride;  // from one run to the next
  int64_t runs = 1;
  for (size_t axis = 0; axis < outer; ++axis) runs *= c.Part(letters[axis]).size();
  for (int64_t k = 0; k < runs; ++k) {
    int64_t rest = k, place = 0, unit = 1;  // of the run among those of the whole tensor
    for (size_t axis = outer; axis-- > 0;) {
      const Range along = c.Part(letters[axis]);
      place += (along.begin + rest % along.size()) * unit;
      rest /= along.size();
      unit *= c.Whole(letters[axis]);
    }
    run(place * step + part.begin * stride, k * count, count);
  }
}

// Elements [first, first + count) of the step's whole tensor: kept ones are scaled up.
template <class Scalar>
void DropElements(const RandomStream& stream, double rate, int64_t first, int64_t count,
                  const Scalar* x, Scalar* y) {
  constexpr int64_t kWords = 4;
  const auto threshold = static_cast<uint32_t>(rate * 0x1.0p32);
  const auto scale = static_cast<Scalar>(1 / (1 - rate));
  int64_t k = 0;
  while (k < count) {
    const std::array<uint32_t, 4> words = stream.Words(static_cast<uint64_t>((first + k) / kWords));
    for (int64_t lane = (first + k) % kWords; lane < kWords && k < count; ++lane, ++k) {
      y[k] = words[static_cast<size_t>(lane)] < threshold ? Scalar{0} : x[k] * scale;
    }
  }
}

}  // namespace

Tensors Einsum(const Call& c) {
  const std::string& a = c.op.inputs[0].letters;
  const std::string& b = c.op.inputs[1].letters;
  const std::string& y = c.op.outputs[0].letters;
  const std::optional<Product> p = AsProduct(a, b, y);
  if (!p) {
    const at::Tensor product = at::einsum(a + "," + b + "->" + y, {c.in[0], c.in[1]});
    if (!c.sum.defined()) return {product.contiguous()};
    c.sum.add_(product);
    return {at::Tensor()};
  }
  at::Tensor left = AsMatrix(c.in[0], a, p->m, p->a_transposed);
  at::Tensor right = AsMatrix(c.in[1], b, p->k, p->b_transposed);
  if (p->y_transposed) {
    std::swap(left, right);
    left = left.t();
    right = right.t();
  }
  if (c.sum.defined()) {
    c.sum.view({left.size(0), right.size(1)}).addmm_(left, right);
    return {at::Tensor()};
  }
  std::vector<int64_t> shape;
  for (const char letter : y) {
    const size_t in_a = a.find(letter);
    shape.push_back(in_a != std::string::npos ? c.in[0].size(static_cast<int64_t>(in_a))
                                              : c.in[1].size(static_cast<int64_t>(b.find(letter))));
  }
  return {at::mm(left, right).view(shape)};
}

Tensors BiasAdd(const Call& c) {
  const at::Tensor bias = Broadcast(c.op.inputs[0].letters, c.op.inputs[1].letters, c.in[1]);
  return {c.Owns(0) ? c.in[0].add_(bias) : c.in[0] + bias};
}

Tensors Add(const Call& c) {
  if (c.Owns(0)) return {c.in[0].add_(c.in[1])};
  return {c.Owns(1) ? c.in[1].add_(c.in[0]) : c.in[0] + c.in[1]};
}

Tensors ReduceSum(const Call& c) {
  std::vector<int64_t> axes;
  const std::string& letters = c.op.inputs[0].letters;
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const bool kept = c.op.outputs[0].letters.find(letters[axis]) != std::string::npos;
    if (!kept) axes.push_back(static_cast<int64_t>(axis));
  }
  return {axes.empty() ? c.in[0].clone() : c.in[0].sum(axes)};
}

Tensors Gelu(const Call& c) { return {at::gelu(c.in[0])}; }

Tensors GeluBackward(const Call& c) {
  if (!c.Owns(0)) return {at::gelu_backward(c.in[0], c.in[1])};
  return {at::gelu_backward_out(c.in[0], c.in[0], c.in[1])};
}

Tensors Relu(const Call& c) { return {c.Owns(0) ? c.in[0].relu_() : at::relu(c.in[0])}; }

Tensors ReluBackward(const Call& c) {
  if (!c.Owns(0)) return {at::threshold_backward(c.in[0], c.in[1], 0)};
  return {at::threshold_backward_out(c.in[0], c.in[0], c.in[1], 0)};
}

Tensors Tanh(const Call& c) { return {c.Owns(0) ? c.in[0].tanh_() : at::tanh(c.in[0])}; }

Tensors TanhBackward(const Call& c) {
  if (!c.Owns(0)) return {at::tanh_backward(c.in[0], c.in[1])};
  return {at::tanh_backward_out(c.in[0], c.in[0], c.in[1])};
}

Tensors Dropout(const Call& c) {
  const OpAttributes& a = c.op.attributes;
  if (!c.context.training) return {c.in[0].clone()};
  const bool own = c.Owns(0);
  const at::Tensor x = c.in[0].contiguous();
  const at::Tensor y = own ? x : at::empty_like(x);
  const RandomStream stream(c.context.seed,
                            "dropout." + a.mask + "." + std::to_string(c.context.step));
  ForRuns(c, [&](int64_t first, int64_t at, int64_t count) {
    if (x.scalar_type() == at::kDouble) {
      DropElements(stream, a.rate, first, count, x.data_ptr<double>() + at,
                   y.data_ptr<double>() + at);
    } else {
      DropElements(stream, a.rate, first, count, x.data_ptr<float>() + at,
                   y.data_ptr<float>() + at);
    }
  });
  return {y};
}

Tensors LayerNorm(const Call& c) {
  auto [y, mean, rstd] =
      at::native_layer_norm(c.in[0], {c.in[0].size(-1)}, c.in[1], c.in[2], c.op.attributes.epsilon);
  return {y, mean.squeeze(-1), rstd.squeeze(-1)};
}

Tensors LayerNormInput(const Call& c) {
  const at::Tensor& x = c.in[1];
  return {std::get<0>(at::native_layer_norm_backward(c.in[0], x, {x.size(-1)},
                                                     c.in[3].unsqueeze(-1), c.in[4].unsqueeze(-1),
                                                     c.in[2], c.in[2], {true, false, false}))};
}

Tensors LayerNormScale(const Call& c) {
  const at::Tensor& x = c.in[1];
  const at::Tensor scale = at::empty({x.size(-1)}, x.options());  // its values do not matter
  return {std::get<1>(at::native_layer_norm_backward(c.in[0], x, {x.size(-1)},
                                                     c.in[2].unsqueeze(-1), c.in[3].unsqueeze(-1),
                                                     scale, scale, {false, true, false}))};
}

Tensors CrossEntropy(const Call& c) {
  const at::Tensor logits = c.in[0].flatten(0, -2);
  const at::Tensor targets = c.in[1].flatten();
  const int64_t rows = RowsAtOnce(logits.size(1));
  Tensors lse, loss = {at::zeros({}, logits.options())};
  for (int64_t row = 0; row < logits.size(0); row += rows) {
    const int64_t count = std::min(rows, logits.size(0) - row);
    const at::Tensor part = logits.narrow(0, row, count);
    lse.push_back(at::logsumexp(part, {-1}));
    const at::Tensor chosen = part.gather(-1, targets.narrow(0, row, count).unsqueeze(-1));
    loss.push_back((lse.back() - chosen.squeeze(-1)).sum());
  }
  const at::Tensor all = lse.empty() ? at::empty({0}, logits.options()) : at::cat(lse);
  return {at::stack(loss).sum() * LossScale(c), all.view(c.in[1].sizes())};
}

Tensors CrossEntropyInput(const Call& c) {
  const double scale = LossScale(c);
  const at::Tensor lse = c.in[2].unsqueeze(-1);
  at::Tensor d = c.Owns(0) ? c.in[0].sub_(lse) : c.in[0] - lse;
  d.exp_().mul_(scale);
  const at::Tensor targets = c.in[1].unsqueeze(-1);
  return {d.scatter_add_(-1, targets, at::full_like(targets, -scale, d.options()))};
}

}  // namespace heddle::kernels
