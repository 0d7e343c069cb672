#include "run/torch/torch_threads.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <mutex>

#include "run/device_threads.h"
#include "run/worker.h"

namespace heddle {

Executors MakeExecutors(const Program& program, const Graph& graph, const DataSource& data,
                        const TrainOptions& options, const TensorsByName& values) {
  Executors executors;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    executors.push_back(std::make_unique<TorchExecutor>(program, static_cast<int32_t>(d), graph,
                                                        data, options, values));
  }
  return executors;
}

Result<Timeline> RunThreads(const Program& program, int64_t repetitions,
                            const Executors& executors) {
  at::set_num_threads(1);  // devices are the threads
  Timeline timeline = EmptyTimeline(program);
  std::mutex mutex;
  WorkerOptions options;
  options.repetitions = repetitions;
  options.start = std::chrono::steady_clock::now();
  const Status status =
      RunOnThreads(program, [&](int32_t device, Communicator& communicator) -> Status {
        HEDDLE_ASSIGN(const std::vector<TimelineEvent> events,
                      RunDevice(program, device, *executors[static_cast<size_t>(device)],
                                communicator, options));
        const std::lock_guard lock(mutex);
        timeline.events.insert(timeline.events.end(), events.begin(), events.end());
        return Ok();
      });
  if (!status.ok()) return status.error();
  SortByStart(timeline);
  return timeline;
}

}  // namespace heddle
