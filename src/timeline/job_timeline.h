// JobTimeline: what several jobs did on the same devices, and which of them did what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/timeline.h"

namespace heddle {

struct JobTimeline {
  Timeline timeline;
  std::vector<std::string> jobs;  // names
  std::vector<int32_t> job_of;    // by event of the timeline: index into jobs

  const std::string& JobOf(size_t event) const { return jobs[static_cast<size_t>(job_of[event])]; }
};

}  // namespace heddle
