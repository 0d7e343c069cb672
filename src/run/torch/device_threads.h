// Devices as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "run/communicator.h"
#include "run/torch/torch_executor.h"
#include "timeline/timeline.h"

namespace heddle {

using Executors = std::vector<std::unique_ptr<TorchExecutor>>;

// One per device of the Program.
Executors MakeExecutors(const Program& program, const Graph& graph, const DataSource& data,
                        const TrainOptions& options, const TensorsByName& values = {});

// Runs `work` for every device, each on a thread, with a communicator among them. The error of the
// device that failed first, if one did; the others then give up.
Status RunOnThreads(const Program& program,
                    const std::function<Status(int32_t device, Communicator&)>& work);

// Runs all devices for so many repetitions of the body.
Result<Timeline> RunThreads(const Program& program, int64_t repetitions,
                            const Executors& executors);

// Lanes and labels as the simulator numbers them, no events yet.
Timeline EmptyTimeline(const Program& program);
void SortByStart(Timeline& timeline);

}  // namespace heddle
