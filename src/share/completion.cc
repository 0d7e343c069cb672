#include "share/completion.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle {
namespace {

Completion Summed(std::span<const JobLength> jobs, std::vector<Seconds> done) {
  Completion completion;
  double weights = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    completion.makespan = std::max(completion.makespan, done[j]);
    completion.mean += done[j] * jobs[j].weight;
    weights += jobs[j].weight;
  }
  completion.mean = completion.mean / weights;
  completion.done = std::move(done);
  return completion;
}

}  // namespace

Completion OneAfterTheOther(std::span<const JobLength> jobs) {
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (jobs[a].priority != jobs[b].priority) return jobs[a].priority > jobs[b].priority;
    return jobs[a].length() / jobs[a].weight < jobs[b].length() / jobs[b].weight;
  });
  std::vector<Seconds> done(jobs.size());
  Seconds now;
  for (const size_t j : order) done[j] = now += jobs[j].length();
  return Summed(jobs, std::move(done));
}

Result<Completion> Together(std::span<const JobLength> jobs, const PaceOf& pace) {
  std::vector<double> left;
  for (const JobLength& job : jobs) left.push_back(job.steps);
  std::vector<size_t> active(jobs.size());
  std::iota(active.begin(), active.end(), 0);
  std::vector<Seconds> done(jobs.size());
  Seconds now;
  while (!active.empty()) {
    HEDDLE_ASSIGN(const std::vector<Seconds> paces, pace(active));
    Seconds next{std::numeric_limits<double>::infinity()};
    for (size_t k = 0; k < active.size(); ++k) next = std::min(next, paces[k] * left[active[k]]);
    now += next;
    std::vector<size_t> still;
    for (size_t k = 0; k < active.size(); ++k) {
      const size_t j = active[k];
      const Seconds rest = paces[k] * left[j] - next;
      if (rest.value <= 1e-12 * next.value) {
        done[j] = now;
        continue;
      }
      left[j] = rest.value / paces[k].value;
      still.push_back(j);
    }
    active = std::move(still);
  }
  return Summed(jobs, std::move(done));
}

}  // namespace heddle
