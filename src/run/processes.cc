#include "run/processes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include "base/child_process.h"
#include "base/stop_signals.h"
#include "run/communicator.h"
#include "run/process_watcher.h"

namespace heddle {
namespace {

// A slot for each process, in memory that all share.
class SharedSlots {
 public:
  explicit SharedSlots(int count) : bytes_(sizeof(ProcessSlot) * static_cast<size_t>(count)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    slots_ = static_cast<ProcessSlot*>(memory_);
    for (int k = 0; k < count; ++k) new (slots_ + k) ProcessSlot;
  }
  ~SharedSlots() { munmap(memory_, bytes_); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  std::span<ProcessSlot> all() { return {slots_, bytes_ / sizeof(ProcessSlot)}; }

 private:
  size_t bytes_;
  void* memory_;
  ProcessSlot* slots_;
};

void WriteError(const Error& error, ProcessSlot& slot) {
  WriteText(slot.where, error.where);
  WriteText(slot.what, error.what);
  WriteText(slot.hint, error.hint);
  slot.failed = static_cast<int>(error.kind);
}

// The life of a child: its exit code.
int BeChild(int32_t rank, ProcessSlot& slot, StopsHeld& stops,
            const std::function<Status(int32_t, ProcessSlot&)>& work) {
  ListenForStops({.tell = &slot.asked});
  stops.Release();
  std::thread([&slot] {
    while (true) {
      slot.cpu_milliseconds = CpuMilliseconds();
      ++slot.beats;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }).detach();
  int code = 0;
  try {
    const Status status = work(rank, slot);
    slot.done = status.ok();
    if (!status.ok()) {
      WriteError(status.error(), slot);
      code = static_cast<int>(status.error().kind);
    }
  } catch (const PeerLost& lost) {
    slot.lost_a_peer = true;
    WriteError({ErrorKind::kRunFailed, "", std::string("lost the others: ") + lost.what(), ""},
               slot);
    code = static_cast<int>(ErrorKind::kRunFailed);
  } catch (const std::exception& error) {
    WriteError({ErrorKind::kRunFailed, "", error.what(), ""}, slot);
    code = static_cast<int>(ErrorKind::kRunFailed);
  }
  return code;
}

}  // namespace

int64_t CpuMilliseconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

Status RunProcesses(int count, const std::function<Status(int32_t rank, ProcessSlot& slot)>& work,
                    const ProcessWatch& watch, ProcessesEnd* end) {
  SharedSlots shared(count);
  std::vector<std::unique_ptr<Process>> children;
  StopsHeld stops;
  for (int rank = 0; rank < count; ++rank) {
    ProcessSlot& slot = shared.all()[static_cast<size_t>(rank)];
    HEDDLE_ASSIGN(ChildProcess child,
                  ChildProcess::Fork([&] { return BeChild(rank, slot, stops, work); },
                                     fmt::format("process {}", rank), {.own_group = true}));
    children.push_back(std::make_unique<ChildProcess>(std::move(child)));
  }
  ProcessWatcher watcher(shared.all(), std::move(children), watch);
  ListenForStops({});
  stops.Release();
  HEDDLE_RETURN_IF_ERROR(watch.after_fork());
  const Status status = watcher.Watch();
  if (end != nullptr) *end = watcher.End();
  return status;
}

}  // namespace heddle
