// Jobs files: whatever is one keeps its promises (share/jobs.h).
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "base/check.h"
#include "share/jobs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto jobs = heddle::ParseJobs(text, "fuzz");
  if (!jobs.ok()) return 0;
  HEDDLE_CHECK(!jobs.value().jobs.empty());
  std::set<std::string> names;
  for (const heddle::JobSpec& job : jobs.value().jobs) {
    HEDDLE_CHECK(names.insert(job.name).second);
    HEDDLE_CHECK(job.plan.empty() != job.request.model.empty() || job.plan.empty());
    HEDDLE_CHECK(job.steps >= 1 && job.weight > 0 && std::isfinite(job.weight));
    HEDDLE_CHECK(!job.tolerated_slowdown || *job.tolerated_slowdown >= 1);
  }
  return 0;
}
