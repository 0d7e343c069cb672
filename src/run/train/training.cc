#include <fmt/format.h>

#include <algorithm>

#include "program/lower/forward_only.h"
#include "program/lower/lower.h"
#include "run/device_threads.h"
#include "run/run_files.h"
#include "run/train/train.h"

namespace heddle {

Result<DType> TrainedType(const Plan& plan, const RunConfig& config) {
  if (config.dtype) return *config.dtype;
  if (plan.request.dtype == DType::kF64 || plan.request.dtype == DType::kF32)
    return plan.request.dtype;
  return BadInput(config.plan,
                  fmt::format("is a plan for {}, which cannot be trained in here yet",
                              NameOf(plan.request.dtype)),
                  "give --dtype fp32: the arithmetic of the plan, in another type");
}

Result<Training> PrepareTraining(const Plan& plan, const Graph& graph, const RunConfig& config,
                                 MakeTrainExecutor executors) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    return BadInput(config.plan,
                    fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                    "run it with --emulate: devices then only keep time");
  }
  HEDDLE_RETURN_IF_ERROR(TrainedType(plan, config));
  Training training{&plan, &graph, config, {}, {}, std::move(executors), nullptr};
  HEDDLE_ASSIGN(training.program, LowerPlan(plan, graph));
  // Looking at held-out samples knows one version of the weights.
  Plan flushed = plan;
  flushed.async.reset();
  if (flushed.local) std::fill(flushed.local->steps.begin(), flushed.local->steps.end(), 1);
  HEDDLE_ASSIGN(const Program whole, LowerPlan(flushed, graph));
  training.forward = ForwardOnly(whole);
  return training;
}

Result<RunResult> TrainOnThreads(const Training& training, const RunListener& listener) {
  std::optional<Result<RunResult>> first;
  std::string directory;
  RunListener heard = listener;
  heard.opened = [&](const std::string& path) {
    directory = path;
    listener.opened(path);
  };
  const Status status =
      RunOnThreads(training.program, [&](int32_t rank, Communicator& communicator) -> Status {
        Result<RunResult> result =
            TrainRank(training, rank, communicator, heard, "threads of this process");
        if (!result.ok()) return result.error();
        if (rank == 0) first.emplace(std::move(result));
        return Ok();
      });
  if (status.ok()) return std::move(*first);
  Error error = status.error();
  if (error.kind == ErrorKind::kRunFailed && error.hint.empty()) error.hint = GoOnHint(directory);
  return error;
}

}  // namespace heddle
