#include "run/torch/plan_network.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "model/layer_chain.h"
#include "model/zoo.h"
#include "program/lower/lower.h"
#include "run/data/synthetic.h"
#include "run/torch/graph_ops.h"
#include "run/torch/torch_executor.h"

namespace heddle {
namespace {

constexpr uint64_t kRuleSeed = 1;  // of the data: all seeds learn the same
// Microbatches of the endless data: each seed has some to itself, losses are taken of others.
constexpr int64_t kOfASeed = int64_t{1} << 25;
constexpr uint64_t kSeeds = 1024;  // after which they come again
constexpr int64_t kUnseen = kOfASeed * static_cast<int64_t>(kSeeds);
constexpr int64_t kLossSamples = 128;

struct TorchPass final : BlockPass {
  std::map<TensorId, at::Tensor> values;
  KernelContext context;
};

TorchPass& Of(BlockPass& pass) { return static_cast<TorchPass&>(pass); }

class TorchBlocks final : public BlockNetwork {
 public:
  TorchBlocks(const Graph& graph, const std::vector<LayerRun>& stages, NormalisationGroups groups)
      : g_(graph),
        chain_(ChainOf(graph)),
        stages_(stages),
        ops_(graph, std::move(groups)),
        data_(MakeSyntheticData(graph, {.seed = kRuleSeed})) {
    int64_t end = 0;
    for (const LayerRun& stage : stages) {
      offsets_.push_back(end);
      held_.emplace_back();
      for (const Parameter& parameter : graph.parameters()) {
        const int layer = parameter.layers.front().value;
        if (layer < stage.first || layer > stage.last) continue;
        held_.back().push_back({&parameter, end - offsets_.back()});
        end += graph.tensor(parameter.tensor).elements();
      }
    }
    offsets_.push_back(end);
    const int64_t batches = std::max<int64_t>(1, kLossSamples / graph.batch());
    for (int64_t k = 0; k < batches; ++k) unseen_.push_back(InputsOf(kUnseen + k));
  }

  const std::vector<int64_t>& offsets() const override { return offsets_; }

  std::vector<double> Start(uint64_t seed) const override {
    TrainOptions options;
    options.seed = seed + 1;
    std::vector<double> x(static_cast<size_t>(offsets_.back()));
    for (size_t b = 0; b < held_.size(); ++b) {
      for (const Held& held : held_[b]) {
        const at::Tensor value = InitialTensor(g_, held.parameter->tensor, options).contiguous();
        std::copy_n(value.data_ptr<double>(), value.numel(), x.data() + offsets_[b] + held.at);
      }
    }
    return x;
  }

  std::shared_ptr<BlockPass> Begin(const BlockDraw& draw) const override {
    auto pass = std::make_shared<TorchPass>();
    HEDDLE_CHECK(draw.microbatch < kOfASeed);
    const auto seed = static_cast<int64_t>(draw.seed % kSeeds);
    pass->values = InputsOf(seed * kOfASeed + draw.microbatch);
    pass->context.batch = g_.batch();
    pass->context.step = pass->context.update = draw.microbatch;
    pass->context.seed = draw.seed + 1;
    return pass;
  }

  void Forward(int block, const double* weights, BlockPass& pass) const override {
    Reread(block, weights, pass);
    const LayerRun& stage = stages_[static_cast<size_t>(block)];
    for (int layer = stage.first; layer <= stage.last; ++layer) {
      RunAll(chain_.layers[static_cast<size_t>(layer)].forward, Of(pass));
    }
  }

  void Reread(int block, const double* weights, BlockPass& pass) const override {
    for (const Held& held : held_[static_cast<size_t>(block)]) {
      const Tensor& tensor = g_.tensor(held.parameter->tensor);
      Of(pass).values[held.parameter->tensor] = ViewOf(weights + held.at, tensor).clone();
    }
  }

  void Backward(int block, BlockPass& pass, double* gradient) const override {
    const LayerRun& stage = stages_[static_cast<size_t>(block)];
    for (int layer = stage.last; layer >= stage.first; --layer) {
      const ChainLayer& ops = chain_.layers[static_cast<size_t>(layer)];
      RunAll(gradient != nullptr ? ops.backward : ops.backward_input, Of(pass));
    }
    if (gradient == nullptr) return;
    for (const Held& held : held_[static_cast<size_t>(block)]) {
      const at::Tensor& made = Of(pass).values.at(held.parameter->gradient);
      ViewOf(gradient + held.at, g_.tensor(held.parameter->tensor)).copy_(made);
    }
  }

  // By the update that the graph has, which writes in place.
  void Descend(int block, const double* gradient, double step, double* x) const override {
    KernelContext context;
    context.learning_rate = step;
    for (const Held& held : held_[static_cast<size_t>(block)]) {
      const Tensor& tensor = g_.tensor(held.parameter->tensor);
      RunKernel(g_, g_.op(held.parameter->update),
                {ViewOf(x + held.at, tensor), ViewOf(gradient + held.at, tensor)}, context);
    }
  }

  double Loss(const double* x) const override {
    double sum = 0;
    for (const std::map<TensorId, at::Tensor>& inputs : unseen_) {
      TorchPass pass;
      pass.values = inputs;
      pass.context.batch = g_.batch();
      pass.context.training = false;
      for (int b = 0; b < blocks(); ++b) {
        Forward(b, x + offsets_[static_cast<size_t>(b)], pass);
      }
      for (size_t t = 0; t < g_.tensors().size(); ++t) {
        const TensorId id{static_cast<int32_t>(t)};
        if (g_.tensor(id).role == Role::kLoss) sum += pass.values.at(id).item<double>();
      }
    }
    return sum / static_cast<double>(unseen_.size());
  }

 private:
  // A parameter and where it begins in its block.
  struct Held {
    const Parameter* parameter;
    int64_t at;
  };

  // Nothing writes to what was const but the caller of Backward and Descend.
  static at::Tensor ViewOf(const double* elements, const Tensor& tensor) {
    return at::from_blob(const_cast<double*>(elements), tensor.shape, at::kDouble);
  }

  std::map<TensorId, at::Tensor> InputsOf(int64_t microbatch) const {
    std::map<TensorId, at::Tensor> inputs;
    for (size_t t = 0; t < g_.tensors().size(); ++t) {
      const TensorId id{static_cast<int32_t>(t)};
      const Tensor& tensor = g_.tensor(id);
      if (tensor.role != Role::kInput) continue;
      inputs[id] = ToTensor(data_->Train(id, microbatch * g_.batch(), g_.batch()), tensor.shape,
                            tensor.dtype == DType::kI64 ? DType::kI64 : DType::kF64);
    }
    return inputs;
  }

  void RunAll(const std::vector<OpId>& ops, TorchPass& pass) const {
    for (const OpId id : ops) {
      const Op& op = g_.op(id);
      std::vector<at::Tensor> inputs;
      for (const Operand& input : op.inputs) inputs.push_back(pass.values.at(input.tensor));
      const std::vector<at::Tensor> outputs = ops_.Run(op, inputs, pass.context);
      for (size_t o = 0; o < outputs.size(); ++o) {
        at::Tensor& value = pass.values[op.outputs[o].tensor];
        value = value.defined() ? value + outputs[o] : outputs[o];  // a tied weight's gradient
      }
    }
  }

  const Graph& g_;
  LayerChain chain_;
  std::vector<LayerRun> stages_;
  GraphOps ops_;
  std::unique_ptr<DataSource> data_;
  std::vector<int64_t> offsets_;
  std::vector<std::vector<Held>> held_;  // by block
  std::vector<std::map<TensorId, at::Tensor>> unseen_;
};

Error NoLine(const std::string& what, const std::string& hint) {
  return BadInput("plan", what, hint);
}

Result<std::vector<LayerRun>> StagesOf(const Plan& plan) {
  const std::string one_line = "plan with --strategy async, 1f1b or pipeline, for one pipeline";
  if (plan.pipelines.size() != 1 || plan.spmd) {
    return NoLine(plan.spmd ? "has no stages: it divides tensors"
                            : fmt::format("has {} pipelines", plan.pipelines.size()),
                  "blocks are the stages of one pipeline; " + one_line);
  }
  std::vector<LayerRun> stages;
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    if (stage.chunks.size() != 1) {
      return NoLine("a stage has several runs of layers", "a block is one; " + one_line);
    }
    stages.push_back(stage.chunks[0]);
  }
  return stages;
}

// A block is a stage's weights: there must be some, and no other stage may have them.
Status CheckWeights(const Graph& graph, const std::vector<LayerRun>& stages) {
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto in_stage = [&](LayerId layer) {
      return layer.value >= stages[s].first && layer.value <= stages[s].last;
    };
    bool any = false;
    for (const Parameter& parameter : graph.parameters()) {
      const auto here = std::count_if(parameter.layers.begin(), parameter.layers.end(), in_stage);
      any = any || here > 0;
      if (here == 0 || here == std::ssize(parameter.layers)) continue;
      return NoLine(
          fmt::format("weight {} belongs to several stages", graph.tensor(parameter.tensor).name),
          "a block has weights of its own; untie them, as in gpt?tied=0");
    }
    if (!any) return NoLine(fmt::format("stage {} has no weights", s), "plan for fewer devices");
  }
  return Ok();
}

// What the plan's devices normalise together of its first microbatch.
Result<NormalisationGroups> MicrobatchGroups(const Plan& plan, int64_t rows) {
  HEDDLE_ASSIGN(const Graph whole,
                BuildModel(plan.request.model, {plan.request.batch, plan.request.dtype,
                                                plan.request.optimizer, plan.request.clip}));
  HEDDLE_ASSIGN(const Program program, LowerPlan(plan, whole));
  NormalisationGroups groups = GroupsOf(program, plan.request.batch);
  for (std::vector<Range>& ranges : groups) {
    std::erase_if(ranges, [&](const Range& range) { return range.end > rows; });
    if (ranges.empty()) ranges = {{0, rows}};
  }
  return groups;
}

}  // namespace

Result<PlanNetwork> NetworkOfPlan(const Plan& plan) {
  if (IsProfileSpec(plan.request.model)) {
    return NoLine("its model is a profile: it has times, no arithmetic", "plan a model of the zoo");
  }
  at::set_num_threads(1);  // passes are the threads
  PlanNetwork made;
  HEDDLE_ASSIGN(made.stages, StagesOf(plan));
  const int64_t rows = std::max<int64_t>(1, plan.request.batch / plan.microbatches);
  HEDDLE_ASSIGN(Graph graph,
                BuildModel(plan.request.model, {rows, plan.request.dtype, Optimizer::kSgd, 0}));
  HEDDLE_RETURN_IF_ERROR(CheckWeights(graph, made.stages));
  HEDDLE_ASSIGN(NormalisationGroups groups, MicrobatchGroups(plan, rows));
  made.graph = std::make_unique<Graph>(std::move(graph));
  made.network = std::make_unique<TorchBlocks>(*made.graph, made.stages, std::move(groups));
  return made;
}

}  // namespace heddle
