#include "run/train/resumed_checkpoint.h"

#include <fmt/format.h>

#include "run/store/run_directory.h"

namespace heddle {
namespace {

Status CheckFits(const Graph& graph, const Checkpoint& checkpoint, const std::string& path) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != Role::kParameter && tensor.role != Role::kState) continue;
    const StoredTensor* stored = checkpoint.tensors.Find(tensor.name);
    if (stored == nullptr) {
      return BadInput(path, fmt::format("has no {}", tensor.name),
                      fmt::format("it is of {} with {}; plan the same model and optimizer",
                                  checkpoint.info.model, checkpoint.info.optimizer));
    }
    if (stored->shape != tensor.shape) {
      return BadInput(path,
                      fmt::format("{} has another shape than in the plan's model", tensor.name),
                      fmt::format("it is of {}", checkpoint.info.model));
    }
  }
  return Ok();
}

}  // namespace

Result<Checkpoint> LoadResumedCheckpoint(const std::string& resume, const Graph& graph) {
  HEDDLE_ASSIGN(const ResumePoint point, FindResumePoint(resume));
  HEDDLE_ASSIGN(Checkpoint checkpoint, LoadCheckpoint(point.checkpoint));
  HEDDLE_RETURN_IF_ERROR(CheckFits(graph, checkpoint, resume));
  return checkpoint;
}

}  // namespace heddle
