#include "program/lower/spmd_scratch.h"

#include <algorithm>
#include <map>
#include <set>

namespace heddle {
namespace {

// Does the op compute into this input, which ends with it?
bool GivenAway(const Graph& graph, const Op& op, size_t input,
               const std::map<TensorId, Bytes>& ended) {
  const TensorId id = op.inputs[input].tensor;
  const Role role = graph.tensor(id).role;
  return ended.contains(id) && (role == Role::kActivation || role == Role::kGradient);
}

}  // namespace

Bytes ScratchOf(const Program& program, const Segment& segment, const SpmdPlan& plan,
                const SpmdSchedule& schedule, const SpmdPiece& piece, const Graph& graph) {
  std::map<TensorId, PortUse> uses;
  for (const SpmdPort& port : piece.ports)
    uses[schedule.values[static_cast<size_t>(port.value)].tensor] = port.use;
  std::map<TensorId, size_t> last_use;
  for (size_t k = 0; k < piece.steps.size(); ++k) {
    const Op& op = graph.op(plan.steps[piece.steps[k]].op);
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) last_use[operand.tensor] = k;
    }
  }
  Bytes live, peak;
  std::set<TensorId> appeared;
  for (size_t k = 0; k < piece.steps.size(); ++k) {
    const SpmdStep& step = plan.steps[piece.steps[k]];
    const Op& op = graph.op(step.op);
    std::vector<int64_t> extents = op.extents;
    for (const auto& [letter, range] : program.ShardsOf(segment.ops[k])) {
      extents[op.IndexOf(letter)] = range.size();
    }
    const auto size = [&](const Operand& operand) {
      const DType dtype = graph.tensor(operand.tensor).dtype;
      return Bytes{heddle::ElementsOf(op, operand, extents) * SizeOf(dtype)};
    };
    Bytes temporary = WorkspaceOf(graph, op, extents);
    std::map<TensorId, Bytes> ended;
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) {
        const auto use = uses.find(operand.tensor);
        const bool made = use == uses.end() || use->second == PortUse::kWrite;
        const bool data = graph.tensor(operand.tensor).role == Role::kInput;
        const bool adds =
            operands == &op.outputs && use != uses.end() && use->second == PortUse::kAccumulate;
        if ((made || data) && appeared.insert(operand.tensor).second) live += size(operand);
        if (adds && !InfoOf(op.kind).adds) temporary += size(operand);
        const bool released = use == uses.end() || use->second == PortUse::kConsume || data;
        if (released && last_use[operand.tensor] == k) ended[operand.tensor] = size(operand);
      }
    }
    const int8_t reused = InfoOf(op.kind).in_place;
    const bool in_place = reused >= 0 && GivenAway(graph, op, static_cast<size_t>(reused), ended);
    if (in_place) temporary -= size(op.outputs[0]);
    peak = std::max(peak, live + temporary);
    for (const auto& item : ended) live -= item.second;
  }
  if (!piece.steps.empty()) return peak;
  for (const Port& port : segment.ports) {  // a move
    if (port.use == PortUse::kWrite) peak += program.BytesOf(port.tensor, port.slice);
  }
  return peak;
}

}  // namespace heddle
