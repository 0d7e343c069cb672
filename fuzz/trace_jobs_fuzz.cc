// Traces: whatever is one can be scheduled, and every job ends after it came.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "share/trace_schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  const auto jobs = heddle::ParseTrace(text, "fuzz");
  if (!jobs.ok()) return 0;
  for (const bool crossover : {false, true}) {
    heddle::TraceOptions options;
    options.devices = 1 << 20;
    options.policy = heddle::TracePolicy::kShortest;
    options.crossover = crossover;
    const auto outcome = heddle::ScheduleTrace(jobs.value(), options);
    HEDDLE_CHECK(outcome.ok());
    for (size_t j = 0; j < jobs.value().size(); ++j) {
      HEDDLE_CHECK(outcome.value().done[j] >= jobs.value()[j].arrival);
    }
  }
  return 0;
}
