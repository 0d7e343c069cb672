// Job Gantt: several jobs on the same devices, drawn on a terminal, one letter per job.
//
//   a:0   │AAAAAABBBBBBBBBAAAAAABBBBBBBBB│
//     net │······aaaaaaaaabbbbbbaaaaaaaaa│
//         └┬─────────┬─────────┬─────────┘
//      ms  0         2         4
//   A: resnet, B: bert; small letters: communicating; · idle
//
// A column shows what its lane does at the middle of the column's time. Colour, one per job, adds
// nothing that the letters do not say.
#pragma once

#include <string>

#include "timeline/job_timeline.h"

namespace heddle {

struct JobGanttOptions {
  int width = 100;  // of the terminal
  bool colour = false;
  Seconds start;
  Seconds span;
  int max_devices = 2;  // the first of them
};

// REQUIRES: span is positive.
std::string DrawJobGantt(const JobTimeline& jobs, const JobGanttOptions& options);

}  // namespace heddle
