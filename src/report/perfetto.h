// Perfetto: a Timeline as the JSON that ui.perfetto.dev and chrome://tracing open.
//
//   HEDDLE_RETURN_IF_ERROR(WriteFile("trace.json", PerfettoJson(simulation.timeline)));
//
//   {"displayTimeUnit":"ms","otherData":{"source":"simulated"},"traceEvents":[
//   {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"a:0"}},
//   {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"a:0 compute"}},
//   {"ph":"X","name":"s0.forward 3","cat":"forward","pid":1,"tid":1,"ts":12.500,"dur":1.250,
//    "args":{"microbatch":3,"repetition":0}}, …
//
// A device is a process, a lane a thread; both are numbered from 1 in the order of the timeline.
// Viewers want the events of one thread not to overlap: what overlaps on a network lane goes to
// further threads, "a:0 network 2" and so on. Times are microseconds with three decimals; starts
// and ends are rounded to nanoseconds, so events that touch still touch and never overlap.
// Format: "Trace Event Format", Chromium project; ph X is a complete event, M metadata.
#pragma once

#include <string>

#include "timeline/timeline.h"

namespace heddle {

// Valid JSON whatever the names hold. REQUIRES: Validate(timeline) passes.
std::string PerfettoJson(const Timeline& timeline);

}  // namespace heddle
