#include "run/timed_run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "run/compute_pace.h"
#include "run/device_threads.h"
#include "run/dilation.h"
#include "run/worker.h"

namespace heddle {
namespace {

// Buffers with a size and no memory; computes that sleep.
class TimedExecutor final : public Executor {
 public:
  TimedExecutor(const Program& program, const Emulation& emulation, int32_t device)
      : p_(program), emulation_(emulation), device_(device), pace_(emulation.clock()) {
    prctl(PR_SET_TIMERSLACK, 1);
  }

  void Compute(const Instruction& compute, int64_t) override {
    const double seconds =
        emulation_.ModelledSeconds(device_, compute.target) * emulation_.dilation();
    ++computes_;
    if (!pace_.Pass(seconds)) ++late_;
  }
  Payload Outgoing(const BufferRef& ref, int64_t) override { return Sized(ref); }
  Payload Incoming(const BufferRef& ref, int64_t) override { return Sized(ref); }
  Payload InPlace(const BufferRef& ref, int64_t) override { return Sized(ref); }
  ExchangeBlocks Exchange(const Instruction& collective, int64_t) override {
    const DeviceProgram& d = p_.devices[static_cast<size_t>(device_)];
    const BufferRef& input = d.operands[static_cast<size_t>(collective.first_operand)];
    const std::vector<int32_t>& members = p_.group(collective.target).devices;
    const std::vector<Bytes> sizes =
        CollectiveSizes(collective.kind, p_.shapes[static_cast<size_t>(collective.shape)],
                        DividedBytes(p_, collective, input));
    const auto rank =
        static_cast<size_t>(std::find(members.begin(), members.end(), device_) - members.begin());
    const bool pairs = collective.kind == CollectiveKind::kAllToAll;
    std::vector<Payload> blocks;  // of an all-to-all: to each member
    for (size_t r = 0; r < members.size(); ++r) {
      const Bytes bytes = sizes[pairs ? rank * members.size() + r : r];
      blocks.push_back({nullptr, nullptr, static_cast<size_t>(bytes.value)});
    }
    if (collective.kind == CollectiveKind::kAllGather) return {{blocks[rank]}, blocks};
    return {blocks, {blocks[rank]}};
  }
  void Free(const BufferRef&, int64_t) override {}
  void Alias(const BufferRef&, const BufferRef&, int64_t) override {}
  DType dtype() const override { return DType::kF32; }

  int64_t computes() const { return computes_; }
  int64_t late() const { return late_; }

 private:
  Payload Sized(const BufferRef& ref) const {
    return {nullptr, nullptr, static_cast<size_t>(p_.BytesOf(ref.tensor, ref.slice).value)};
  }

  const Program& p_;
  const Emulation& emulation_;
  int32_t device_;
  ComputePace pace_;
  int64_t computes_ = 0, late_ = 0;
};

// Moves nothing: the emulation around it knows when both ends are there, and when the message is.
class SilentCommunicator final : public Communicator {
 public:
  TicketPtr Send(int32_t, int32_t, Payload) override { return std::make_shared<Done>(); }
  TicketPtr Receive(int32_t, int32_t, Payload) override { return std::make_shared<Done>(); }
  TicketPtr Collective(CollectiveCall) override { return std::make_shared<Done>(); }

 private:
  struct Done final : Ticket {
    void Wait() override {}
  };
};

// One part of the run, of some steps, on a thread per device. Events in real seconds.
Result<std::vector<TimelineEvent>> RunPart(const Program& program, Emulation& emulation,
                                           int64_t steps, TimedResult& counts) {
  WorkerOptions options;
  options.repetitions = steps;
  options.clock = &emulation.clock();
  options.start = options.clock->Now();
  const size_t devices = program.devices.size();
  std::vector<std::optional<Result<std::vector<TimelineEvent>>>> results(devices);
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (size_t d = 0; d < devices; ++d) {
    threads.push_back(emulation.clock().Start([&, d] {
      const auto device = static_cast<int32_t>(d);
      TimedExecutor executor(program, emulation, device);
      SilentCommunicator communicator;
      const auto paced = emulation.Pace(device, communicator);
      results[d].emplace(RunDevice(program, device, executor, *paced, options));
      const std::lock_guard lock(mutex);
      counts.deadlines += executor.computes();
      counts.missed += executor.late();
    }));
  }
  emulation.clock().Join(threads);
  std::vector<TimelineEvent> events;
  for (auto& result : results) {
    HEDDLE_ASSIGN(const std::vector<TimelineEvent> mine, *std::move(result));
    events.insert(events.end(), mine.begin(), mine.end());
  }
  return events;
}

// When the last device was done with each step.
std::vector<double> EndsOf(const std::vector<TimelineEvent>& events, int64_t steps) {
  std::vector<double> ends(static_cast<size_t>(steps), 0);
  for (const TimelineEvent& event : events) {
    double& end = ends[static_cast<size_t>(event.repetition)];
    end = std::max(end, event.end.value);
  }
  return ends;
}

Timeline TimelineOf(const Program& program, std::vector<TimelineEvent> events, double dilation) {
  Timeline timeline = EmptyTimeline(program);
  timeline.source = "emulated";
  int32_t last = 0;
  for (const TimelineEvent& event : events) last = std::max(last, event.repetition);
  std::erase_if(events, [&](const TimelineEvent& event) { return event.repetition != last; });
  for (TimelineEvent& event : events) {
    event.start = event.start / dilation;
    event.end = event.end / dilation;
  }
  timeline.events = std::move(events);
  SortByStart(timeline);
  return timeline;
}

}  // namespace

Result<TimedResult> RunTimed(const Program& program, Emulation& emulation,
                             const TimedOptions& options) {
  constexpr double kPartSeconds = 0.5;  // long enough to cost nothing, short enough to be stopped
  HEDDLE_CHECK(options.dilation > 0);
  emulation.SetDilation(options.dilation);
  TimedResult result;
  std::vector<TimelineEvent> events;
  int64_t wanted = 1;  // steps of the next part
  for (int64_t done = 0; done < options.steps && !options.interrupted();) {
    const int64_t steps = std::min(wanted, options.steps - done);
    HEDDLE_ASSIGN(events, RunPart(program, emulation, steps, result));
    const std::vector<double> ends = EndsOf(events, steps);
    for (size_t k = 0; k < ends.size(); ++k) {
      result.seconds.push_back((ends[k] - (k > 0 ? ends[k - 1] : 0)) / options.dilation);
    }
    done += steps;
    const double step_seconds = std::max(1e-6, ends.back() / static_cast<double>(steps));
    wanted = std::max<int64_t>(1, std::llround(kPartSeconds / step_seconds));
  }
  result.timeline = TimelineOf(program, std::move(events), options.dilation);
  return result;
}

double DilationFor(const Program& program, const Emulation& emulation, double step_seconds) {
  constexpr double kLeastCompute = 0.002;  // real seconds of the mean one
  double seconds = 0;
  int64_t computes = 0;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    for (const Instruction& in : program.devices[d].list(Section::kBody)) {
      if (in.code != OpCode::kCompute) continue;
      seconds += emulation.ModelledSeconds(static_cast<int32_t>(d), in.target);
      ++computes;
    }
  }
  double dilation = 1;
  if (step_seconds > 0) dilation = std::max(dilation, kLeastDilatedStep / step_seconds);
  if (seconds > 0) {
    dilation = std::max(dilation, kLeastCompute * static_cast<double>(computes) / seconds);
  }
  return dilation;
}

}  // namespace heddle
