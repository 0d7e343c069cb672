#include "plan/spmd/memory_limits.h"

#include <algorithm>
#include <map>

namespace heddle {

MemoryLimits::MemoryLimits(SpmdProblem& problem) {
  AddKinds(problem);
  bytes_.resize(problem.ops().size());
  for (const Parameter& parameter : problem.graph().parameters()) AddStored(problem, parameter);
  TakeActivations(problem);
}

void MemoryLimits::AddKinds(const SpmdProblem& problem) {
  std::map<int, size_t> kinds;  // by type
  for (size_t place = 0; place < problem.mesh().size(); ++place) {
    const DeviceId device = problem.mesh().device(place);
    const auto [found, fresh] =
        kinds.try_emplace(problem.cluster().device(device).type, room_.size());
    if (fresh) {
      room_.push_back(static_cast<double>(problem.cluster().type_of(device).memory.value));
    }
    kind_of_.push_back(found->second);
  }
}

std::vector<double> MemoryLimits::Least(const std::vector<double>& shares) const {
  std::vector<double> least(room_.size(), kNever);
  for (size_t place = 0; place < shares.size(); ++place) {
    double& one = least[kind_of_[place]];
    one = std::min(one, shares[place]);
  }
  return least;
}

void MemoryLimits::AddStored(SpmdProblem& problem, const Parameter& parameter) {
  const Graph& graph = problem.graph();
  const Op& update = graph.op(parameter.update);
  ConversionTable& table = problem.facts(parameter.tensor.value).conversions();
  double whole = table.bytes();
  for (const TensorId state : parameter.states) {
    whole += static_cast<double>(graph.tensor(state).bytes().value);
  }
  for (const OpChoice& choice : *problem.op(parameter.update.value).choices) {
    const int layout = table.space().IndexOf(OutputLayout(update, 0, choice.rule));
    std::vector<double> bytes = Least(table.SharesOf(layout));
    for (double& one : bytes) one *= whole;
    bytes_[static_cast<size_t>(parameter.update.value)].push_back(std::move(bytes));
  }
}

void MemoryLimits::TakeActivations(SpmdProblem& problem) {
  const Graph& graph = problem.graph();
  std::vector<bool> made(graph.tensors().size(), false), saved(graph.tensors().size(), false);
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::kForward) {
      for (const Operand& output : op.outputs) {
        made[static_cast<size_t>(output.tensor.value)] = true;
      }
      continue;
    }
    for (const Operand& input : op.inputs) {
      const auto at = static_cast<size_t>(input.tensor.value);
      saved[at] = saved[at] || made[at];
    }
  }
  for (size_t t = 0; t < saved.size(); ++t) {
    const Role role = graph.tensors()[t].role;
    if (!saved[t] || role == Role::kState || role == Role::kParameter) continue;
    ConversionTable& table = problem.facts(static_cast<int>(t)).conversions();
    std::vector<double> least(room_.size(), kNever);
    for (int layout = 0; layout < table.space().size(); ++layout) {
      const std::vector<double> shares = Least(table.SharesOf(layout));
      for (size_t kind = 0; kind < least.size(); ++kind) {
        least[kind] = std::min(least[kind], shares[kind]);
      }
    }
    for (size_t kind = 0; kind < room_.size(); ++kind) room_[kind] -= table.bytes() * least[kind];
  }
}

std::vector<double> MemoryLimits::BytesOf(const std::vector<int>& choices) const {
  std::vector<double> bytes(room_.size(), 0);
  for (size_t k = 0; k < choices.size(); ++k) {
    const std::vector<double>& more = BytesOf(static_cast<int>(k), static_cast<size_t>(choices[k]));
    for (size_t kind = 0; kind < more.size(); ++kind) bytes[kind] += more[kind];
  }
  return bytes;
}

bool MemoryLimits::Fits(const std::vector<double>& bytes) const {
  constexpr double kRounding = 1;  // byte
  for (size_t kind = 0; kind < bytes.size(); ++kind) {
    if (bytes[kind] > room_[kind] + kRounding) return false;
  }
  return true;
}

}  // namespace heddle
