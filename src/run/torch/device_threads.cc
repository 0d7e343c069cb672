#include "run/torch/device_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "run/local_communicator.h"
#include "run/worker.h"

namespace heddle {
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

void SortByStart(Timeline& timeline) {
  std::stable_sort(
      timeline.events.begin(), timeline.events.end(),
      [](const TimelineEvent& a, const TimelineEvent& b) { return a.start < b.start; });
}

Executors MakeExecutors(const Program& program, const Graph& graph, const DataSource& data,
                        const TrainOptions& options, const TensorsByName& values) {
  Executors executors;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    executors.push_back(std::make_unique<TorchExecutor>(program, static_cast<int32_t>(d), graph,
                                                        data, options, values));
  }
  return executors;
}

Status RunOnThreads(const Program& program,
                    const std::function<Status(int32_t device, Communicator&)>& work) {
  at::set_num_threads(1);  // devices are the threads
  LocalExchange exchange(program);
  std::mutex mutex;
  std::optional<Error> failure;
  std::vector<std::thread> threads;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    threads.emplace_back([&, d] {
      const auto device = static_cast<int32_t>(d);
      const auto communicator = exchange.ForDevice(device);
      Status status = Ok();
      try {
        status = work(device, *communicator);
      } catch (const PeerLost&) {
        return;  // whoever failed says why
      } catch (const std::exception& error) {
        status = Error{ErrorKind::kRunFailed, program.devices[d].name, error.what(), ""};
      }
      if (status.ok()) return;
      const std::lock_guard lock(mutex);
      if (!failure) failure = status.error();
      exchange.Abandon();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) return *failure;
  return Ok();
}

Result<Timeline> RunThreads(const Program& program, int64_t repetitions,
                            const Executors& executors) {
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
