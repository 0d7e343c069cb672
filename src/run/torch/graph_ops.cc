#include "run/torch/graph_ops.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace heddle {

NormalisationGroups GroupsOf(const Program& program, int64_t batch) {
  std::vector<int64_t> first_row = {0};
  for (const int64_t rows : program.microbatch_rows) first_row.push_back(first_row.back() + rows);
  NormalisationGroups groups(static_cast<size_t>(program.layers));
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code != OpCode::kCompute || !in.microbatch.present()) continue;
      const Segment& segment = program.segment(in.target);
      if (segment.phase != SegmentPhase::kForward || segment.recompute) continue;
      const int64_t m = in.microbatch.value(0) % std::ssize(program.microbatch_rows);
      const int64_t first = first_row[static_cast<size_t>(m)] % batch;
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

// A value per group of rows: a statistic of the batch.
bool GraphOps::PerGroup(const Operand& operand) const {
  const Tensor& tensor = g_.tensor(operand.tensor);
  const bool flows = tensor.role == Role::kActivation || tensor.role == Role::kGradient;
  return flows && !tensor.per_sample;
}

std::vector<at::Tensor> GraphOps::Run(const Op& op, const std::vector<at::Tensor>& inputs,
                                      const KernelContext& context) const {
  const auto per_group = [&](const Operand& operand) { return PerGroup(operand); };
  const bool grouped = std::any_of(op.inputs.begin(), op.inputs.end(), per_group) ||
                       std::any_of(op.outputs.begin(), op.outputs.end(), per_group);
  return grouped ? RunInGroups(op, inputs, context) : RunKernel(g_, op, inputs, context);
}

// Statistics are stacked, one per group; rows are put together again; weight gradients added.
std::vector<at::Tensor> GraphOps::RunInGroups(const Op& op, const std::vector<at::Tensor>& inputs,
                                              const KernelContext& context) const {
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
    const std::vector<at::Tensor> outputs = RunKernel(g_, op, std::move(part), context);
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

}  // namespace heddle
