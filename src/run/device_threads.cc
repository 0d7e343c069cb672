#include "run/device_threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "run/local_communicator.h"

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

Status RunOnThreads(const Program& program,
                    const std::function<Status(int32_t device, Communicator&)>& work) {
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

}  // namespace heddle
