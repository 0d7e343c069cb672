// Trace schedule: a stream of jobs on many equal devices, with and without crossover.
//
//   HEDDLE_ASSIGN(auto jobs, LoadTrace("jobs.csv"));
//   HEDDLE_ASSIGN(TraceOutcome out, ScheduleTrace(jobs, {.devices = 64, .crossover = true}));
//
// A job needs as many devices as it says, at once. Without crossover it has them to itself. With
// it, two jobs of as many devices may take turns on the same ones: each gets on at the fair rate of
// the period model (max-min over device, network and input), and only where the two are then done
// no later in the mean than one after the other. Devices are alike and placement costs nothing;
// neither does stopping a job and going on with it later.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "share/trace_jobs.h"

namespace heddle {

enum class TracePolicy : uint8_t {
  kFifo,      // in the order of arrival; who does not fit holds up those behind
  kShortest,  // the shortest rest first, stopping others for it; who does not fit is passed over
};
std::string_view NameOf(TracePolicy policy);

// Devices and the one or two jobs on them, for a while.
struct TraceUnit {
  int devices = 0;
  std::vector<int32_t> jobs;  // into the trace
  std::vector<double> rates;  // iterations per second
};

// Told of every span in which nothing changes.
using TraceWatch =
    std::function<void(double start, double end, const std::vector<TraceUnit>& units)>;

struct TraceOptions {
  int devices = 64;
  TracePolicy policy = TracePolicy::kFifo;
  bool crossover = false;
  TraceWatch watch;
};

struct TraceOutcome {
  std::vector<double> done;   // by job, seconds from the trace's zero
  double makespan = 0;        // from the first arrival to the last end
  double mean = 0;            // of the times from arrival to end
  double p99 = 0;             // 99 of 100 took no longer
  double device_seconds = 0;  // in which devices were given to jobs
};

// A job that wants more devices than there are is refused with its line.
Result<TraceOutcome> ScheduleTrace(std::span<const TraceJob> jobs, const TraceOptions& options);

}  // namespace heddle
