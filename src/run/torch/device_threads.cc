#include "run/torch/device_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "run/local_communicator.h"
#include "run/worker.h"

namespace heddle {
namespace {

// Lanes as the simulator numbers them.
Timeline EmptyTimeline(const Program& program) {
  Timeline timeline;
  timeline.source = "real";
  for (const DeviceProgram& device : program.devices) {
    timeline.lanes.push_back({device.name + " compute", device.name, LaneKind::kCompute});
    timeline.lanes.push_back({device.name + " network", device.name, LaneKind::kNetwork});
  }
  for (const Segment& segment : program.segments) timeline.labels.push_back(segment.name);
  return timeline;
}

}  // namespace

Executors MakeExecutors(const Program& program, const Graph& graph, const DataSource& data,
                        const TrainOptions& options, const TensorsByName& values) {
  Executors executors;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    executors.push_back(std::make_unique<TorchExecutor>(program, static_cast<int32_t>(d), graph,
                                                        data, options, values));
  }
  return executors;
}

Result<Timeline> RunThreads(const Program& program, int64_t repetitions, const Executors& executors,
                            StepControl* control) {
  at::set_num_threads(1);  // devices are the threads
  LocalExchange exchange(LocalExchange::GroupsOf(program));
  Timeline timeline = EmptyTimeline(program);
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::optional<Error> failure;
  WorkerOptions options;
  options.repetitions = repetitions;
  options.start = std::chrono::steady_clock::now();
  options.stop = &stop;
  options.control = control;
  const auto fail = [&](Error error) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(error);
    stop = true;
    exchange.Abandon();
  };
  std::vector<std::thread> threads;
  for (size_t d = 0; d < executors.size(); ++d) {
    threads.emplace_back([&, d] {
      const auto communicator = exchange.ForDevice(static_cast<int32_t>(d));
      try {
        const auto events =
            RunDevice(program, static_cast<int32_t>(d), *executors[d], *communicator, options);
        if (!events.ok()) return fail(events.error());
        const std::lock_guard lock(mutex);
        timeline.events.insert(timeline.events.end(), events.value().begin(), events.value().end());
      } catch (const std::exception& error) {
        fail({ErrorKind::kRunFailed, program.devices[d].name, error.what(), ""});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) return *failure;
  std::stable_sort(
      timeline.events.begin(), timeline.events.end(),
      [](const TimelineEvent& a, const TimelineEvent& b) { return a.start < b.start; });
  return timeline;
}

}  // namespace heddle
