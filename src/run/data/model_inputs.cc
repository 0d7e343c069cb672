#include "run/data/model_inputs.h"

#include <fmt/format.h>

#include "base/text.h"

namespace heddle {

int64_t IndexBound(const Graph& graph, TensorId input) {
  for (const Op& op : graph.ops()) {
    const bool embeds = op.kind == OpKind::kEmbedding && op.inputs[0].tensor == input;
    const bool labels = op.kind == OpKind::kCrossEntropy && op.inputs[1].tensor == input;
    if (embeds) return graph.tensor(op.inputs[1].tensor).shape[0];
    if (labels) return graph.tensor(op.inputs[0].tensor).shape.back();
  }
  return 0;
}

std::vector<TensorId> InputsOf(const Graph& graph) {
  std::vector<TensorId> inputs;
  for (size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].role == Role::kInput) inputs.push_back({static_cast<int32_t>(t)});
  }
  return inputs;
}

int64_t SampleElements(const Graph& graph, TensorId input) {
  return graph.tensor(input).elements() / graph.batch();
}

std::optional<InputPair> OnlyInputs(const Graph& graph, std::string_view data,
                                    std::string_view targets) {
  InputPair pair;
  for (const TensorId input : InputsOf(graph)) {
    const Tensor& tensor = graph.tensor(input);
    if (!tensor.per_sample) return std::nullopt;
    if (tensor.name == data) {
      pair.data = input;
    } else if (tensor.name == targets && tensor.dtype == DType::kI64) {
      pair.targets = input;
    } else {
      return std::nullopt;
    }
  }
  if (!pair.data.valid() || !pair.targets.valid()) return std::nullopt;
  return pair;
}

std::string DescribeInputs(const Graph& graph) {
  std::vector<std::string> parts;
  for (const TensorId input : InputsOf(graph)) {
    const Tensor& tensor = graph.tensor(input);
    std::string part = fmt::format("{} {} [b", tensor.name, NameOf(tensor.dtype));
    for (size_t axis = 1; axis < tensor.shape.size(); ++axis) {
      part += fmt::format(", {}", tensor.shape[axis]);
    }
    part += "]";
    if (const int64_t bound = IndexBound(graph, input)) part += fmt::format(" below {}", bound);
    parts.push_back(std::move(part));
  }
  return parts.empty() ? "nothing" : Join(parts, ", ");
}

Error Unsuited(const std::string& spec, const Graph& graph, const std::string& gives,
               const std::string& suited) {
  return BadInput(spec, fmt::format("the model wants {}", DescribeInputs(graph)),
                  fmt::format("this source gives {}; {}", gives, suited));
}

}  // namespace heddle
