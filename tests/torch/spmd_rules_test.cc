// Every way to compute every op of the zoo on several devices, on random tensors: what the devices
// have combines to what one device computes. Uneven shards, and shards with nothing in them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "run/data/model_inputs.h"
#include "run/torch/kernels.h"
#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr int64_t kBatch = 4;

struct Family {
  const char* name;
  const char* model;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// What one device has of a tensor.
at::Tensor PartOf(const at::Tensor& whole, const ShardState& state, const std::vector<Range>& parts,
                  size_t device) {
  switch (state.kind) {
    case ShardKind::kReplicated:
      return whole.clone();
    case ShardKind::kPartial: {  // summands that add up to the whole
      const auto share = static_cast<double>(device + 1);
      const double all = static_cast<double>(parts.size() * (parts.size() + 1)) / 2;
      return whole * (share / all);
    }
    case ShardKind::kSharded:
      return whole.narrow(state.dim, parts[device].begin, parts[device].size()).clone();
  }
  return {};
}

// The tensor that the devices have together; undefined when copies differ.
at::Tensor Combined(const std::vector<at::Tensor>& parts, const ShardState& state) {
  if (state.kind == ShardKind::kSharded) return at::cat(parts, state.dim);
  at::Tensor sum = parts[0];
  for (size_t d = 1; d < parts.size(); ++d) {
    if (state.kind == ShardKind::kPartial) {
      sum = sum + parts[d];
    } else if (!at::allclose(parts[0], parts[d], 1e-12, 1e-14)) {
      return {};
    }
  }
  return sum;
}

class SpmdRulesTest : public testing::TestWithParam<Family> {
 protected:
  SpmdRulesTest() : graph_(Tiny(GetParam().model, kBatch)) { at::manual_seed(7); }

  // Random tensors, but tokens, slots and places are those of a real step.
  void RunStep() {
    context_.batch = kBatch;
    context_.dtype = at::kDouble;
    for (size_t t = 0; t < graph_.tensors().size(); ++t) {
      const Tensor& tensor = graph_.tensors()[t];
      const TensorId id{static_cast<int32_t>(t)};
      if (tensor.role == Role::kParameter || tensor.role == Role::kState) {
        values_[id] = at::rand(tensor.shape, at::kDouble);
      } else if (tensor.role == Role::kInput && tensor.dtype == DType::kI64) {
        values_[id] = at::randint(0, IndexBound(graph_, id), tensor.shape, at::kLong);
      } else if (tensor.role == Role::kInput) {
        values_[id] = at::randn(tensor.shape, at::kDouble);
      }
    }
    for (const Op& op : graph_.ops()) {
      if (op.phase == Phase::kUpdate && op.kind != OpKind::kSquareSum) continue;
      const std::vector<at::Tensor> outputs = RunKernel(graph_, op, InputsOf(op), context_);
      for (size_t o = 0; o < outputs.size(); ++o) values_[op.outputs[o].tensor] = outputs[o];
    }
  }

  std::vector<at::Tensor> InputsOf(const Op& op) const {
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) inputs.push_back(values_.at(input.tensor).clone());
    return inputs;
  }

  // Updates change their inputs in place: those are their outputs.
  std::vector<at::Tensor> Run(const Op& op, std::vector<at::Tensor> inputs,
                              const KernelContext& context) const {
    const bool update = op.phase == Phase::kUpdate && op.kind != OpKind::kSquareSum;
    if (!update) return RunKernel(graph_, op, std::move(inputs), context);
    RunKernel(graph_, op, inputs, context);
    std::vector<at::Tensor> outputs = {inputs[0]};
    for (size_t k = 2; outputs.size() < op.outputs.size(); ++k) outputs.push_back(inputs[k]);
    return outputs;
  }

  void ExpectRule(const Op& op, const AxisRule& rule, const std::vector<double>& ratios) const {
    const std::string what = op.name + " as " + NameOf(rule);
    std::vector<Range> parts(ratios.size());
    if (rule.letter != 0) parts = ShardRanges(op.extents[op.IndexOf(rule.letter)], ratios);
    std::vector<std::vector<at::Tensor>> made(op.outputs.size());
    for (size_t d = 0; d < ratios.size(); ++d) {
      std::vector<at::Tensor> inputs;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const at::Tensor& whole = values_.at(op.inputs[i].tensor);
        inputs.push_back(PartOf(whole, InputState(op, i, rule), parts, d));
      }
      std::vector<Range> letters;
      for (const int64_t extent : op.extents) letters.push_back({0, extent});
      if (rule.letter != 0) letters[op.IndexOf(rule.letter)] = parts[d];
      KernelContext context = context_;
      context.parts = letters;
      context.rows = kBatch;
      const std::vector<at::Tensor> outputs = Run(op, std::move(inputs), context);
      for (size_t o = 0; o < outputs.size(); ++o) made[o].push_back(outputs[o]);
    }
    const std::vector<at::Tensor> expected = Run(op, InputsOf(op), context_);
    for (size_t o = 0; o < made.size(); ++o) {
      const at::Tensor got = Combined(made[o], OutputState(op, o, rule));
      ASSERT_TRUE(got.defined()) << what << ": copies differ";
      ASSERT_EQ(got.sizes(), expected[o].sizes()) << what;
      const double scale = std::max(1e-12, expected[o].abs().max().item<double>());
      const double error = (got - expected[o]).abs().max().item<double>() / scale;
      ASSERT_LT(error, 1e-9) << what << ", output " << o << ", " << ratios.size() << " devices";
    }
  }

  Graph graph_;
  KernelContext context_;
  std::map<TensorId, at::Tensor> values_;
};

TEST_P(SpmdRulesTest, EveryRuleOfEveryOp) {
  RunStep();
  const std::vector<std::vector<double>> shares = {
      {0.5, 0.5}, {1, 0}, {0.5, 0.2, 0.3}, {0, 0.6, 0.4}, {0.1, 0.4, 0, 0.3, 0.2}};
  size_t rules = 0;
  for (const Op& op : graph_.ops()) {
    for (const AxisRule& rule : RulesOf(op)) {
      // Whole numbers have no partial sums, and plans do not ask for any.
      bool possible = true;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        possible &= graph_.tensor(op.inputs[i].tensor).dtype != DType::kI64 ||
                    InputState(op, i, rule).kind != ShardKind::kPartial;
      }
      if (!possible) continue;
      for (const std::vector<double>& ratios : shares) ExpectRule(op, rule, ratios);
      ++rules;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(rules, 2 * graph_.ops().size());
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, SpmdRulesTest,
    testing::Values(
        Family{"mlp", "tiny-mlp?layers=2&dropout=20"},
        Family{"gpt", "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12&dropout=10"},
        Family{"transformer", "transformer?layers=1&hidden=8&wide=12&heads=2&seq=4&vocab=12"},
        Family{"moe", "tiny-moe?layers=2&hidden=8&heads=2&seq=4&vocab=12&every=1&capacity=75"},
        Family{"vit", "vit?layers=1&hidden=8&heads=2&image=8&patch=4&classes=5&dropout=10"},
        Family{"resnet",
               "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1"},
        Family{"inception", "inception-v3?width=1&image=139&classes=5"}),
    [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace heddle
