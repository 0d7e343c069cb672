#include "cost/op_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace heddle {
namespace {

// The type in which an op computes: that of its first floating-point operand.
DType ComputeType(const Graph& graph, const Op& op) {
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      const DType type = graph.tensor(operand.tensor).dtype;
      if (type != DType::kI64) return type;
    }
  }
  return DType::kF32;
}

}  // namespace

std::string SignatureOf(const Graph& graph, const Op& op, std::span<const int64_t> extents) {
  std::string text(InfoOf(op.kind).name);
  char separator = ' ';
  for (const Operand& input : op.inputs) {
    text += separator + input.letters;
    separator = ',';
  }
  text += "->";
  for (const Operand& output : op.outputs) {
    if (&output != &op.outputs.front()) text += ',';
    text += output.letters;
  }
  for (size_t k = 0; k < op.letters.size(); ++k) {
    fmt::format_to(std::back_inserter(text), " {}={}", op.letters[k], extents[k]);
  }
  return fmt::format("{} {}", text, NameOf(ComputeType(graph, op)));
}

Seconds OpCost::OpSeconds(const Op& op, std::span<const int64_t> extents,
                          const DeviceTypeSpec& type) const {
  if (profile_ != nullptr) {
    if (const auto measured = profile_->Find(type.name, SignatureOf(*graph_, op, extents))) {
      return *measured;
    }
  }
  if (op.kind == OpKind::kOpaque) {
    const auto rows = static_cast<double>(extents[op.IndexOf('b')]);
    const auto profiled = static_cast<double>(op.attributes.profiled_rows);
    const double rate = op.attributes.profiled_rate.value;
    const double slower = rate > 0 ? rate / type.rate(ComputeType(*graph_, op)).value : 1;
    return op.attributes.profiled_seconds * (rows / profiled * slower);
  }
  const Flops flops = FlopsOf(op, extents);
  const Bytes bytes = TrafficOf(*graph_, op, extents);
  const Seconds compute = flops / type.rate(ComputeType(*graph_, op));
  const Seconds memory = bytes / type.memory_bandwidth;
  return type.launch_overhead + std::max(compute, memory);
}

Seconds OpCost::RowsSeconds(const Op& op, int64_t rows, const DeviceTypeSpec& type) const {
  return OpSeconds(op, ExtentsForRows(op, rows), type);
}

}  // namespace heddle
