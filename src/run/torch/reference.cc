#include "run/torch/reference.h"

#include <ATen/ATen.h>

#include "run/data/synthetic.h"
#include "run/initial_values.h"

namespace heddle {

at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step) {
  const Tensor& tensor = graph.tensor(input);
  const DType dtype = tensor.dtype == DType::kI64 ? DType::kI64 : options.dtype;
  const std::vector<double> values =
      SyntheticInput(graph, input, options.seed, step * graph.batch(), graph.batch());
  return ToTensor(values, tensor.shape, dtype);
}

Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps) {
  Trained trained;
  std::map<TensorId, at::Tensor> kept;
  for (const Parameter& parameter : graph.parameters()) {
    kept[parameter.tensor] = InitialTensor(graph, parameter.tensor, options);
    for (const TensorId state : parameter.states) {
      kept[state] = InitialTensor(graph, state, options);
    }
  }
  for (int64_t step = 0; step < steps; ++step) {
    std::map<TensorId, at::Tensor> values = kept;  // the same storage: updates are in place
    for (size_t t = 0; t < graph.tensors().size(); ++t) {
      const TensorId id{static_cast<int32_t>(t)};
      if (graph.tensor(id).role != Role::kInput) continue;
      values[id] = BatchOf(graph, id, options, step);
    }
    const KernelContext context{graph.batch(), options.learning_rate, step};
    for (const Op& op : graph.ops()) {
      std::vector<at::Tensor> inputs;
      for (const Operand& input : op.inputs) inputs.push_back(values.at(input.tensor));
      const std::vector<at::Tensor> outputs = RunKernel(graph, op, inputs, context);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const TensorId id = op.outputs[o].tensor;
        const bool sums = values.contains(id);  // a tied weight's gradient
        values[id] = sums ? values[id] + outputs[o] : outputs[o];
        if (graph.tensor(id).role == Role::kLoss)
          trained.losses.push_back(outputs[o].item<double>());
      }
    }
    for (const Parameter& parameter : graph.parameters()) {
      trained.gradients[graph.tensor(parameter.gradient).name] = values.at(parameter.gradient);
    }
  }
  for (const Parameter& parameter : graph.parameters()) {
    trained.parameters[graph.tensor(parameter.tensor).name] = kept.at(parameter.tensor);
  }
  return trained;
}

}  // namespace heddle
