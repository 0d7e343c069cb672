// The graph's explicit backward and update ops against libtorch's autograd and optimizers.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <map>

#include "model/zoo.h"
#include "run/torch/kernels.h"
#include "run/torch/reference.h"

namespace heddle {
namespace {

double Difference(const at::Tensor& got, const at::Tensor& expected) {
  const double scale = std::max(expected.abs().max().item<double>(), 1e-30);
  return (got - expected).abs().max().item<double>() / scale;
}

// Parameters that autograd follows, by tensor.
std::map<TensorId, at::Tensor> Leaves(const Graph& graph, const TrainOptions& options) {
  std::map<TensorId, at::Tensor> leaves;
  for (const Parameter& parameter : graph.parameters()) {
    leaves[parameter.tensor] =
        InitialTensor(graph, parameter.tensor, options).clone().requires_grad_(true);
  }
  return leaves;
}

// The loss of a step: only the graph's forward ops, differentiated by libtorch.
at::Tensor Loss(const Graph& graph, const std::map<TensorId, at::Tensor>& leaves,
                const TrainOptions& options, int64_t step) {
  std::map<TensorId, at::Tensor> values = leaves;
  for (size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId id{static_cast<int32_t>(t)};
    if (graph.tensor(id).role == Role::kInput) values[id] = BatchOf(graph, id, options, step);
  }
  at::Tensor loss;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kForward) continue;
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) inputs.push_back(values.at(input.tensor));
    KernelContext context;
    context.batch = graph.batch();
    context.step = step;
    context.update = step;
    context.seed = options.seed;
    std::vector<at::Tensor> outputs;
    if (op.kind == OpKind::kDropout) {  // the same mask, as a factor
      outputs = {inputs[0] * RunKernel(graph, op, {at::ones_like(inputs[0])}, context)[0]};
    } else {
      outputs = RunKernel(graph, op, inputs, context);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const TensorId id = op.outputs[o].tensor;
      values[id] = outputs[o];
      if (graph.tensor(id).role != Role::kLoss) continue;
      loss = loss.defined() ? loss + outputs[o] : outputs[o];
    }
  }
  return loss;
}

struct Case {
  std::string model;
  Optimizer optimizer;
  double clip = 0;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.model << ", " << NameOf(one.optimizer);
  if (one.clip > 0) *out << ", clipped to " << one.clip;
}

std::unique_ptr<torch::optim::Optimizer> OracleOf(Optimizer optimizer, double rate,
                                                  const std::vector<at::Tensor>& list) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return std::make_unique<torch::optim::SGD>(list, torch::optim::SGDOptions(rate));
    case Optimizer::kMomentum:
      return std::make_unique<torch::optim::SGD>(list,
                                                 torch::optim::SGDOptions(rate).momentum(0.9));
    case Optimizer::kAdam:
      return std::make_unique<torch::optim::Adam>(list, torch::optim::AdamOptions(rate));
    case Optimizer::kAdamW:
      return std::make_unique<torch::optim::AdamW>(list, torch::optim::AdamWOptions(rate));
  }
  return nullptr;
}

// What torch::nn::utils::clip_grad_norm_ does.
void Clip(const std::vector<at::Tensor>& list, double most) {
  at::Tensor squares = at::zeros({}, at::kDouble);
  for (const at::Tensor& leaf : list) squares = squares + leaf.grad().square().sum();
  const double factor = most / (squares.sqrt().item<double>() + 1e-6);
  for (const at::Tensor& leaf : list) {
    if (factor < 1) leaf.mutable_grad().mul_(factor);
  }
}

class AutogradTest : public testing::TestWithParam<Case> {};

TEST_P(AutogradTest, LossGradientsAndParametersAgree) {
  const Case& c = GetParam();
  const Graph graph =
      BuildModel(c.model, {.batch = 6, .optimizer = c.optimizer, .clip = c.clip}).value();
  TrainOptions options;
  options.learning_rate = 0.01;
  constexpr int64_t kSteps = 3;
  std::map<TensorId, at::Tensor> leaves = Leaves(graph, options);
  std::vector<at::Tensor> list;
  for (const auto& leaf : leaves) list.push_back(leaf.second);
  const auto optimizer = OracleOf(c.optimizer, options.learning_rate, list);
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const at::Tensor loss = Loss(graph, leaves, options, step);
    loss.backward();
    losses.push_back(loss.item<double>());
    if (c.clip > 0) Clip(list, c.clip);
    if (step + 1 < kSteps) optimizer->step();
  }
  const Trained trained = TrainDirectly(graph, options, kSteps);
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(trained.losses[step], losses[step], 1e-10 * std::abs(losses[step]));
  }
  for (const Parameter& parameter : graph.parameters()) {
    const std::string& name = graph.tensor(parameter.gradient).name;
    EXPECT_LE(Difference(trained.gradients.at(name), leaves.at(parameter.tensor).grad()), 1e-10)
        << name;
  }
  optimizer->step();
  for (const Parameter& parameter : graph.parameters()) {
    const std::string& name = graph.tensor(parameter.tensor).name;
    EXPECT_LE(Difference(trained.parameters.at(name), leaves.at(parameter.tensor).detach()), 1e-10)
        << name;
  }
}

constexpr char kTinyGpt[] = "tiny-gpt?layers=2&hidden=24&heads=3&seq=7&vocab=19";
constexpr char kTinyBert[] =
    "bert-base?layers=2&hidden=24&heads=3&seq=7&vocab=19&classes=3&dropout=20";

INSTANTIATE_TEST_SUITE_P(
    Zoo, AutogradTest,
    testing::Values(
        Case{"tiny-mlp", Optimizer::kSgd}, Case{"tiny-mlp", Optimizer::kAdam},
        Case{"tiny-mlp?dropout=30", Optimizer::kMomentum}, Case{kTinyGpt, Optimizer::kSgd},
        Case{kTinyGpt, Optimizer::kAdam}, Case{kTinyGpt, Optimizer::kAdamW, 0.5},
        Case{"tiny-gpt?layers=2&tied=0&seq=9&vocab=33&dropout=10", Optimizer::kAdam},
        Case{kTinyBert, Optimizer::kAdamW}, Case{kTinyBert, Optimizer::kMomentum, 0.01},
        Case{"transformer?layers=2&hidden=24&wide=40&heads=3&seq=6&vocab=19", Optimizer::kAdam},
        Case{"xlnet-large?layers=1&hidden=16&heads=2&seq=5&vocab=11", Optimizer::kSgd},
        Case{"vit?layers=2&hidden=24&heads=3&image=12&patch=4&classes=5&dropout=10",
             Optimizer::kAdam},
        Case{"vgg19?width=2&hidden=12&image=32&classes=5", Optimizer::kMomentum},
        Case{"resnet152?width=2&image=37&classes=5&blocks1=1&blocks2=2&blocks3=1&blocks4=1",
             Optimizer::kMomentum},
        Case{"bridge?layers=1&width=3&channels=2&image=4&classes=5", Optimizer::kAdam},
        Case{"inception-v3?width=1&image=79&classes=5", Optimizer::kSgd, 0.1},
        Case{"tiny-moe?layers=2&hidden=16&heads=2&seq=8&vocab=19&every=1", Optimizer::kAdam},
        Case{"bert-moe?layers=2&hidden=16&heads=2&seq=8&vocab=19&experts=3&capacity=50",
             Optimizer::kAdamW, 1.0}));

// Forward kernels against libtorch's own composite functions.
TEST(ForwardKernelTest, CrossEntropyAndLayerNorm) {
  const Graph graph = BuildModel("tiny-mlp", {.batch = 6}).value();
  const at::Tensor logits = at::randn({6, 10}, at::kDouble);
  const at::Tensor targets = at::randint(10, {6}, at::kLong);
  const Op& op = graph.op(*graph.FindOp("xent"));
  const auto outputs = RunKernel(graph, op, {logits, targets}, {.batch = 6});
  EXPECT_NEAR(outputs[0].item<double>(), at::cross_entropy_loss(logits, targets).item<double>(),
              1e-12);
}

TEST(ForwardKernelTest, CausalAttentionIsMaskedSoftmax) {
  const Graph graph = BuildModel("tiny-gpt?layers=1&hidden=8&heads=2&seq=5", {.batch = 2}).value();
  const Op& op = graph.op(*graph.FindOp("block0.attn"));
  const at::Tensor qkv = at::randn({2, 5, 3, 2, 4}, at::kDouble);
  const at::Tensor out = RunKernel(graph, op, {qkv}, {.batch = 2})[0];
  for (int64_t position = 0; position < 5; ++position) {
    const at::Tensor q = qkv[1][position][0][1];
    const at::Tensor k = qkv[1].slice(0, 0, position + 1).select(1, 1).select(1, 1);
    const at::Tensor v = qkv[1].slice(0, 0, position + 1).select(1, 2).select(1, 1);
    const at::Tensor expected = at::softmax(at::mv(k, q) / 2.0, 0).unsqueeze(0).mm(v)[0];
    EXPECT_LE(Difference(out[1][position][1], expected), 1e-12);
  }
}

}  // namespace
}  // namespace heddle
