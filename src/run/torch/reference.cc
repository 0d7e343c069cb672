#include "run/torch/reference.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "run/data/synthetic.h"

namespace heddle {

at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step) {
  const Tensor& tensor = graph.tensor(input);
  const DType dtype = tensor.dtype == DType::kI64 ? DType::kI64 : options.dtype;
  const std::vector<double> values =
      SyntheticInput(graph, input, options.seed, step * graph.batch(), graph.batch());
  return ToTensor(values, tensor.shape, dtype);
}

NormalisationGroups GroupsOf(const Program& program) {
  std::vector<int64_t> first_row = {0};
  for (const int64_t rows : program.microbatch_rows) first_row.push_back(first_row.back() + rows);
  NormalisationGroups groups(static_cast<size_t>(program.layers));
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code != OpCode::kCompute || !in.microbatch.present()) continue;
      const Segment& segment = program.segment(in.target);
      if (segment.phase != SegmentPhase::kForward || segment.recompute) continue;
      const int64_t m = in.microbatch.value(0) % std::ssize(program.microbatch_rows);
      const int64_t first = first_row[static_cast<size_t>(m)];
      const Range rows{first + segment.rows.begin, first + segment.rows.end};
      for (int32_t layer = segment.first_layer; layer <= segment.last_layer; ++layer) {
        groups[static_cast<size_t>(layer)].push_back(rows);
      }
    }
  }
  for (std::vector<Range>& ranges : groups) {
    std::sort(ranges.begin(), ranges.end());
    ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  }
  return groups;
}

namespace {

// One step after another on the whole batch.
class DirectTraining {
 public:
  DirectTraining(const Graph& graph, const TrainOptions& options, const NormalisationGroups& groups,
                 const std::vector<LayerAge>& ages)
      : g_(graph), options_(options), groups_(groups), ages_(ages) {
    for (const Parameter& parameter : graph.parameters()) {
      kept_[parameter.tensor] = InitialTensor(graph, parameter.tensor, options);
      for (const TensorId state : parameter.states) {
        kept_[state] = InitialTensor(graph, state, options);
      }
    }
  }

  // Returns the loss.
  double Step(int64_t step) {
    values_ = kept_;  // the same storage: updates are in place
    if (!ages_.empty()) {
      for (const Parameter& parameter : g_.parameters()) {
        versions_[parameter.tensor].push_back(kept_.at(parameter.tensor).clone());
      }
    }
    for (size_t t = 0; t < g_.tensors().size(); ++t) {
      const TensorId id{static_cast<int32_t>(t)};
      if (g_.tensor(id).role == Role::kInput) values_[id] = BatchOf(g_, id, options_, step);
    }
    context_.batch = g_.batch();
    context_.learning_rate =
        options_.schedule.At(step, options_.total_steps, options_.learning_rate);
    context_.step = step;
    context_.seed = options_.seed;
    context_.dtype = ScalarOf(options_.dtype);
    double loss = 0;
    for (const Op& op : g_.ops()) {
      const std::vector<at::Tensor> outputs = Run(op);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const TensorId id = op.outputs[o].tensor;
        const bool sums = values_.contains(id);  // a tied weight's gradient
        values_[id] = sums ? values_[id] + outputs[o] : outputs[o];
        if (g_.tensor(id).role == Role::kLoss) loss += outputs[o].item<double>();
      }
    }
    return loss;
  }

  const at::Tensor& value(TensorId id) const { return values_.at(id); }

 private:
  // A value per group of rows: a statistic of the batch.
  bool PerGroup(const Operand& operand) const {
    const Tensor& tensor = g_.tensor(operand.tensor);
    const bool flows = tensor.role == Role::kActivation || tensor.role == Role::kGradient;
    return flows && !tensor.per_sample;
  }

  const at::Tensor& InputOf(const Op& op, TensorId id) const {
    const bool weight = g_.tensor(id).role == Role::kParameter && op.phase != Phase::kUpdate;
    if (ages_.empty() || !weight) return values_.at(id);
    const LayerAge& age = ages_[static_cast<size_t>(op.layer.value)];
    const int64_t older = op.phase == Phase::kForward ? age.forward : age.backward;
    return versions_.at(id)[static_cast<size_t>(std::max<int64_t>(0, context_.step - older))];
  }

  std::vector<at::Tensor> Run(const Op& op) {
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) inputs.push_back(InputOf(op, input.tensor));
    const auto per_group = [&](const Operand& operand) { return PerGroup(operand); };
    const bool grouped = std::any_of(op.inputs.begin(), op.inputs.end(), per_group) ||
                         std::any_of(op.outputs.begin(), op.outputs.end(), per_group);
    return grouped ? RunInGroups(op, inputs) : RunKernel(g_, op, inputs, context_);
  }

  // Statistics are stacked, one per group; rows are put together again; weight gradients added.
  std::vector<at::Tensor> RunInGroups(const Op& op, const std::vector<at::Tensor>& inputs) {
    std::vector<Range> groups = {{0, g_.batch()}};
    if (!groups_.empty()) groups = groups_[static_cast<size_t>(op.layer.value)];
    std::vector<std::vector<at::Tensor>> made(op.outputs.size());
    for (size_t group = 0; group < groups.size(); ++group) {
      std::vector<at::Tensor> part = inputs;
      for (size_t k = 0; k < part.size(); ++k) {
        if (PerGroup(op.inputs[k])) {
          part[k] = part[k][static_cast<int64_t>(group)];
        } else if (g_.tensor(op.inputs[k].tensor).per_sample) {
          part[k] = part[k].narrow(0, groups[group].begin, groups[group].size());
        }
      }
      const std::vector<at::Tensor> outputs = RunKernel(g_, op, std::move(part), context_);
      for (size_t o = 0; o < outputs.size(); ++o) made[o].push_back(outputs[o]);
    }
    std::vector<at::Tensor> joined;
    for (size_t o = 0; o < made.size(); ++o) {
      const bool rows = g_.tensor(op.outputs[o].tensor).per_sample;
      joined.push_back(rows ? at::cat(made[o]) : at::stack(made[o]));
      if (!rows && !PerGroup(op.outputs[o])) joined.back() = joined.back().sum(0);
    }
    return joined;
  }

  const Graph& g_;
  const TrainOptions& options_;
  const NormalisationGroups& groups_;
  const std::vector<LayerAge>& ages_;
  std::map<TensorId, std::vector<at::Tensor>> versions_;  // by step: before its update
  KernelContext context_;
  std::map<TensorId, at::Tensor> kept_, values_;
};

}  // namespace

Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps,
                      const NormalisationGroups& groups, const std::vector<LayerAge>& ages) {
  Trained trained;
  DirectTraining training(graph, options, groups, ages);
  for (int64_t step = 0; step < steps; ++step) trained.losses.push_back(training.Step(step));
  for (const Parameter& parameter : graph.parameters()) {
    trained.gradients[graph.tensor(parameter.gradient).name] = training.value(parameter.gradient);
    trained.parameters[graph.tensor(parameter.tensor).name] = training.value(parameter.tensor);
  }
  return trained;
}

}  // namespace heddle
