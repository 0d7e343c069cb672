#include "plan/spmd/alike.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <unordered_map>

#include "cost/op_cost.h"

namespace heddle {
namespace {

std::string KeyOf(const Tensor& tensor) {
  return fmt::format("{} {} {}", fmt::join(tensor.shape, ","), SizeOf(tensor.dtype),
                     tensor.per_sample);
}

// Everything that the choices depend on.
std::string KeyOf(const Graph& graph, const Op& op, const std::vector<bool>& saved) {
  std::string key = SignatureOf(graph, op, op.extents);
  auto end = std::back_inserter(key);
  fmt::format_to(end, "|{}|{}", op.work, op.phase == Phase::kUpdate);
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      fmt::format_to(end, " {}{}{}", SizeOf(graph.tensor(operand.tensor).dtype),
                     HasLayout(graph, op, operand, operands == &op.outputs) ? 't' : 'f',
                     saved[static_cast<size_t>(operand.tensor.value)] ? 's' : ' ');
    }
  }
  if (op.kind == OpKind::kOpaque) {
    fmt::format_to(end, " {} {} {}", op.attributes.profiled_seconds.value,
                   op.attributes.profiled_rows, op.attributes.profiled_rate.value);
  }
  return key;
}

std::vector<bool> SavedTensors(const Graph& graph) {
  std::vector<bool> saved(graph.tensors().size(), false), forward(saved.size(), false);
  for (const Op& op : graph.ops()) {
    for (const Operand& input : op.inputs) {
      const auto at = static_cast<size_t>(input.tensor.value);
      if (op.phase != Phase::kForward && forward[at]) saved[at] = true;
    }
    for (const Operand& output : op.outputs) {
      forward[static_cast<size_t>(output.tensor.value)] = op.phase == Phase::kForward;
    }
  }
  return saved;
}

}  // namespace

std::shared_ptr<const Alike> Alike::Of(const Graph& graph) {
  auto alike = std::make_shared<Alike>();
  alike->saved = SavedTensors(graph);
  std::unordered_map<std::string, int> kinds;
  for (size_t t = 0; t < graph.tensors().size(); ++t) {
    const auto [found, fresh] =
        kinds.try_emplace(KeyOf(graph.tensors()[t]), static_cast<int>(alike->one_tensor.size()));
    alike->tensors.push_back(found->second);
    if (fresh) alike->one_tensor.push_back(TensorId{static_cast<int32_t>(t)});
  }
  kinds.clear();
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    const auto [found, fresh] = kinds.try_emplace(KeyOf(graph, graph.ops()[k], alike->saved),
                                                  static_cast<int>(alike->one_op.size()));
    alike->ops.push_back(found->second);
    if (fresh) alike->one_op.push_back(OpId{static_cast<int32_t>(k)});
  }
  return alike;
}

bool HasLayout(const Graph& graph, const Op& op, const Operand& operand, bool output) {
  const Role role = graph.tensor(operand.tensor).role;
  if (role == Role::kInput || role == Role::kState) return false;
  return output || op.phase != Phase::kUpdate || role != Role::kParameter;
}

}  // namespace heddle
