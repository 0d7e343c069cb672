#include "turns/turn_cycle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace heddle {
namespace {

constexpr Seconds kShortestTurn{1e-9};  // no job computes in no time

}  // namespace

std::vector<int32_t> TurnCounts(std::span<const double> rates, int most) {
  const double largest = *std::max_element(rates.begin(), rates.end());
  std::vector<int32_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (int scale = 1; scale <= most; ++scale) {  // turns of the most frequent
    std::vector<int32_t> counts;
    double error = 0;
    for (const double rate : rates) {
      const double exact = rate / largest * scale;
      counts.push_back(std::max(1, static_cast<int32_t>(std::lround(exact))));
      error = std::max(error, std::abs(counts.back() / exact - 1));
    }
    if (!best.empty() && std::accumulate(counts.begin(), counts.end(), 0) > most) break;
    if (error < least - 1e-6) {
      least = error;
      best = std::move(counts);
    }
  }
  return best;
}

int32_t BeginCycle(std::span<const TurnJob> jobs, Seconds switch_cost,
                   std::span<OrderMember> members) {
  HEDDLE_CHECK(jobs.size() == members.size());
  std::vector<OrderMember*> waiting;
  std::vector<JobTimes> times;
  std::vector<double> weights;
  for (size_t k = 0; k < members.size(); ++k) {
    if (!members[k].waits()) continue;
    waiting.push_back(&members[k]);
    times.push_back(jobs[k].times);
    times.back().compute = std::max(times.back().compute, kShortestTurn);
    weights.push_back(jobs[k].weight);
  }
  if (waiting.empty()) return 0;
  const std::vector<int32_t> counts =
      TurnCounts(FairJobRates(times, weights, switch_cost), kLongestCycle);
  for (size_t k = 0; k < waiting.size(); ++k) {
    waiting[k]->seconds = times[k].compute.value;
    waiting[k]->weight = counts[k] * waiting[k]->seconds;
    waiting[k]->deficit = 0;
  }
  return std::accumulate(counts.begin(), counts.end(), 0);
}

std::vector<int32_t> TurnCycle(TurnOrder order, std::span<const TurnJob> jobs,
                               Seconds switch_cost) {
  HEDDLE_CHECK(order != TurnOrder::kArrival);
  std::vector<OrderMember> members(jobs.size(), {.active = true, .left = INT64_MAX});
  const int32_t turns = order == TurnOrder::kDeficit ? BeginCycle(jobs, switch_cost, members)
                                                     : static_cast<int32_t>(jobs.size());
  std::vector<int32_t> cycle;
  int32_t last = -1;
  for (int32_t turn = 0; turn < turns; ++turn) {
    last = NextJob(order, members, last);
    cycle.push_back(last);
  }
  return cycle;
}

}  // namespace heddle
