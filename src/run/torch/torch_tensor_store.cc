// The tensors behind a TorchExecutor, as those who save and compare them see them.

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <unordered_set>

#include "run/torch/stored_tensors.h"
#include "run/torch/torch_executor.h"
#include "run/updated_parameters.h"

namespace heddle {

TensorsByName TorchExecutor::Values(Role role) const {
  TensorsByName values;
  for (const auto& [key, buffer] : buffers_) {
    const ProgramTensor& tensor = p_.tensor(key.tensor);
    if (tensor.role == role) values[tensor.name] = buffer.part.tensor;
  }
  return values;
}

namespace {

// Views of the tensors' memory.
HeldTensors Views(TensorsByName values) {
  const auto owner = std::make_shared<const TensorsByName>(std::move(values));
  return {ToStored(*owner), {owner}};
}

}  // namespace

HeldTensors TorchExecutor::Held(Role role) const { return Views(Values(role)); }

HeldTensors TorchExecutor::Updated() const {
  const std::unordered_set<int32_t> updated = UpdatedParameters(p_, device_);
  TensorsByName values;
  for (const auto& [key, buffer] : buffers_) {
    if (!updated.contains(key.tensor)) continue;
    values[fmt::format("{}/{}/{}/{}", p_.tensor(key.tensor).name, key.form, key.replica,
                       key.version)] = buffer.part.tensor;
  }
  return Views(std::move(values));
}

std::unique_ptr<TrainExecutor> TorchExecutor::Fork(const Program& program,
                                                   const TrainOptions& options) const {
  return std::make_unique<TorchExecutor>(program, device_, g_, data_, options,
                                         Values(Role::kParameter));
}

std::unique_ptr<TrainExecutor> MakeTorchExecutor(const Program& program, int32_t device,
                                                 const Graph& graph, const DataSource& data,
                                                 const TrainOptions& options,
                                                 std::span<const StoredTensor> values) {
  at::set_num_threads(1);
  return std::make_unique<TorchExecutor>(program, device, graph, data, options,
                                         FromStored(values, options.dtype));
}

}  // namespace heddle
