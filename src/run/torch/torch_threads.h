// Devices as threads of this process, with ATen tensors.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "run/torch/torch_executor.h"
#include "timeline/timeline.h"

namespace heddle {

using Executors = std::vector<std::unique_ptr<TorchExecutor>>;

// One per device of the Program.
Executors MakeExecutors(const Program& program, const Graph& graph, const DataSource& data,
                        const TrainOptions& options, const TensorsByName& values = {});

// Runs all devices for so many repetitions of the body.
Result<Timeline> RunThreads(const Program& program, int64_t repetitions,
                            const Executors& executors);

}  // namespace heddle
