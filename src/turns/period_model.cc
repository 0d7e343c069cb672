#include "turns/period_model.h"

#include <algorithm>

#include "base/check.h"
#include "turns/fair_share.h"

namespace heddle {
namespace {

// With what it costs to go over to each job.
std::vector<JobTimes> WithSwitches(std::span<const JobTimes> jobs, Seconds switch_cost) {
  std::vector<JobTimes> all(jobs.begin(), jobs.end());
  if (all.size() < 2) return all;
  for (JobTimes& job : all) job.compute += switch_cost;
  return all;
}

}  // namespace

Seconds BestPeriod(std::span<const JobTimes> jobs, Seconds switch_cost) {
  if (jobs.size() == 1) return jobs[0].alone();
  Seconds compute, communicate, longest;
  for (const JobTimes& job : WithSwitches(jobs, switch_cost)) {
    compute += job.compute;
    communicate += job.communicate;
    longest = std::max(longest, job.alone());
  }
  return std::max({compute, communicate, longest});
}

// Device and network are two wires of capacity 1, a job a flow with both loads.
std::vector<double> FairJobRates(std::span<const JobTimes> jobs, std::span<const double> weights,
                                 Seconds switch_cost) {
  HEDDLE_CHECK(jobs.size() == weights.size());
  const std::vector<JobTimes> all = WithSwitches(jobs, switch_cost);
  std::vector<std::vector<FlowLoad>> loads(all.size());
  std::vector<FairFlow> flows;
  for (size_t j = 0; j < all.size(); ++j) {
    // A unit of its rate: so much of its speed alone as its weight says.
    const double unit = weights[j] / all[j].alone().value;
    for (const auto& [wire, part] : {std::pair{0, all[j].compute}, {1, all[j].communicate}}) {
      if (part.value > 0) loads[j].push_back({wire, unit * part.value});
    }
    flows.push_back({loads[j], 1 / weights[j]});
  }
  const std::vector<double> full = {1.0, 1.0};
  std::vector<double> rates = FairRates(flows, full);
  for (size_t j = 0; j < rates.size(); ++j) rates[j] *= weights[j] / all[j].alone().value;
  return rates;
}

}  // namespace heddle
