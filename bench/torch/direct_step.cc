#include "direct_step.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/check.h"
#include "run/torch/torch_executor.h"

namespace heddle {

DirectTransformer::DirectTransformer(const Graph& graph, const DataSource& data, int64_t layers,
                                     int64_t heads, bool gpt)
    : g_(graph), data_(data), layers_(layers), heads_(heads), gpt_(gpt) {
  TrainOptions options;
  options.dtype = DType::kF32;
  for (const heddle::Parameter& parameter : graph.parameters()) {
    at::Tensor value = InitialTensor(graph, parameter.tensor, options);
    // libtorch keeps a linear layer's weight as [out, in].
    const std::string& name = graph.tensor(parameter.tensor).name;
    if (name.ends_with(".w")) {
      int64_t in = 1;
      const int64_t features = name.find("proj") != std::string::npos ? 2 : 1;
      for (int64_t axis = 0; axis < features; ++axis) in *= value.size(axis);
      value = value.reshape({in, -1}).t().contiguous();
    } else if (name.ends_with(".bias")) {
      value = value.flatten();
    }
    leaves_.push_back(value.clone().requires_grad_(true));
  }
  optimizer_ = std::make_unique<torch::optim::Adam>(leaves_, torch::optim::AdamOptions(1e-3));
}

at::Tensor DirectTransformer::Parameter(const std::string& name) const {
  for (size_t p = 0; p < leaves_.size(); ++p) {
    if (g_.tensor(g_.parameters()[p].tensor).name == name) return leaves_[p];
  }
  HEDDLE_CHECK(false && "no such parameter");
  return {};
}

at::Tensor DirectTransformer::Input(const std::string& name, int64_t step) const {
  const TensorId id = *g_.FindTensor(name);
  return ToTensor(data_.Train(id, step * g_.batch(), g_.batch()), g_.tensor(id).shape,
                  g_.tensor(id).dtype);
}

at::Tensor DirectTransformer::Linear(const std::string& name, const at::Tensor& x) const {
  return at::linear(x, Parameter(name + ".w"), Parameter(name + ".bias"));
}

at::Tensor DirectTransformer::Norm(const std::string& name, const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, Parameter(name + ".scale"), Parameter(name + ".shift"),
                        gpt_ ? 1e-5 : 1e-12);
}

at::Tensor DirectTransformer::Attend(const std::string& name, const at::Tensor& x) const {
  const int64_t b = x.size(0), s = x.size(1), features = x.size(2) / heads_;
  const auto qkv =
      Linear(name + ".qkv", x).view({b, s, 3, heads_, features}).permute({2, 0, 3, 1, 4}).unbind(0);
  at::Tensor scores =
      at::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(features));
  if (gpt_) {
    const at::Tensor later = at::ones({s, s}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
  }
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2]);
  return Linear(name + ".proj", mixed.transpose(1, 2).reshape({b, s, heads_ * features}));
}

at::Tensor DirectTransformer::Loss(int64_t step) const {
  const at::Tensor table = Parameter("embed.tokens");
  at::Tensor x = at::embedding(table, Input("tokens", step));
  if (!gpt_) x = x + at::embedding(Parameter("embed.segments"), Input("segments", step));
  x = x + Parameter("embed.positions");
  if (!gpt_) x = Norm("embed.ln", x);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const std::string name = "block" + std::to_string(layer);
    const auto mlp = [&](const at::Tensor& in) {
      return Linear(name + ".fc2", at::gelu(Linear(name + ".fc1", in)));
    };
    if (gpt_) {
      x = x + Attend(name, Norm(name + ".ln1", x));
      x = x + mlp(Norm(name + ".ln2", x));
    } else {
      x = Norm(name + ".ln1", x + Attend(name, x));
      x = Norm(name + ".ln2", x + mlp(x));
    }
  }
  const at::Tensor targets = Input("targets", step).flatten();
  if (gpt_) {
    x = Norm("head.ln", x);
    return at::cross_entropy_loss(at::linear(x, table).flatten(0, 1), targets);
  }
  x = at::tanh(Linear("head.pool", x.select(1, 0)));
  return at::cross_entropy_loss(Linear("head.out", x), targets);
}

double DirectTransformer::Step(int64_t step) {
  optimizer_->zero_grad();
  const at::Tensor loss = Loss(step);
  loss.backward();
  optimizer_->step();
  return loss.item<double>();
}

}  // namespace heddle
