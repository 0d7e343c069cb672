#include "share/trace_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// How far down the queue partners are looked for: further ones wait long anyway.
constexpr size_t kMostPartners = 128;

using Pair = std::array<double, 2>;

// Parts of their speed alone that two jobs get on at, together: max-min fair over what both need,
// as turns/fair_share.h has it for any number, and so often asked for here that it allocates
// nothing.
Pair RatesOf(const TraceJob& a, const TraceJob& b) {
  std::array<Pair, kTraceResourceCount> load{};
  double level = 1;
  for (size_t r = 0; r < kTraceResourceCount; ++r) {
    load[r] = {a.needs[r] / a.alone, b.needs[r] / b.alone};
    const double both = load[r][0] + load[r][1];
    if (both > 0) level = std::min(level, 1 / both);
  }
  const double reached = level * (1 + 1e-12);
  Pair rates{level, level};
  std::array<bool, 2> full{1 <= reached, 1 <= reached};
  for (const Pair& one : load) {
    const bool is_full = 1 <= reached * (one[0] + one[1]);
    for (size_t k = 0; k < 2; ++k) full[k] = full[k] || (is_full && one[k] > 0);
  }
  // One of them may have more: what the other leaves of the rest.
  for (size_t k = 0; k < 2; ++k) {
    if (full[k]) continue;
    rates[k] = 1;
    for (const Pair& one : load) {
      if (one[k] > 0) {
        rates[k] = std::min(rates[k], std::max(0.0, 1 - level * one[1 - k]) / one[k]);
      }
    }
  }
  return rates;
}

// Jobs in the order of what is left of them, by the number of devices that they want: those who fit
// are found without a look at those who do not.
class ShortestFirst {
 public:
  using Key = std::pair<double, int32_t>;  // seconds left, job

  void Add(int devices, const Key& key) { by_devices_[devices].insert(key); }
  bool empty() const { return by_devices_.empty(); }

  // The first that wants no more than so many.
  std::optional<int32_t> Take(int most_devices) {
    auto best = by_devices_.end();
    for (auto it = by_devices_.begin(); it != by_devices_.end() && it->first <= most_devices;
         ++it) {
      if (best == by_devices_.end() || *it->second.begin() < *best->second.begin()) best = it;
    }
    if (best == by_devices_.end()) return std::nullopt;
    const int32_t job = best->second.begin()->second;
    Remove(best->first, *best->second.begin());
    return job;
  }

  std::vector<Key> First(size_t count) const {
    std::vector<std::pair<std::set<Key>::const_iterator, std::set<Key>::const_iterator>> heads;
    for (const auto& item : by_devices_) heads.emplace_back(item.second.begin(), item.second.end());
    std::vector<Key> first;
    while (first.size() < count && !heads.empty()) {
      const auto next =
          std::min_element(heads.begin(), heads.end(),
                           [](const auto& x, const auto& y) { return *x.first < *y.first; });
      first.push_back(*next->first);
      if (++next->first == next->second) heads.erase(next);
    }
    return first;
  }

  void Remove(int devices, const Key& key) {
    const auto found = by_devices_.find(devices);
    found->second.erase(key);
    if (found->second.empty()) by_devices_.erase(found);
  }

 private:
  std::map<int, std::set<Key>> by_devices_;
};

class Scheduler {
 public:
  Scheduler(std::span<const TraceJob> jobs, const TraceOptions& options)
      : jobs_(jobs), options_(options), left_(jobs.size()), done_(jobs.size(), 0) {
    for (size_t j = 0; j < jobs.size(); ++j) left_[j] = jobs[j].length();
  }

  TraceOutcome Run() {
    size_t next = 0;  // to arrive
    double now = jobs_[0].arrival;
    while (next < jobs_.size() || !line_.empty() || !shortest_.empty() || !units_.empty()) {
      for (; next < jobs_.size() && jobs_[next].arrival <= now; ++next) {
        Queue(static_cast<int32_t>(next));
      }
      Assign();
      const double arrival = next < jobs_.size() ? jobs_[next].arrival : kInfinity;
      const double end = std::min(arrival, FirstEnd(now));
      if (options_.watch) options_.watch(now, end, Told());
      Work(now, end);
      now = end;
      Retire(now);
    }
    return Outcome();
  }

 private:
  struct Unit {
    int devices = 0;
    std::vector<int32_t> jobs;
    Pair speeds{1, 1};  // of that alone
  };

  double& Left(int32_t job) { return left_[static_cast<size_t>(job)]; }
  double Left(int32_t job) const { return left_[static_cast<size_t>(job)]; }
  int DevicesOf(int32_t job) const { return jobs_[static_cast<size_t>(job)].devices; }

  void Queue(int32_t job) {
    if (options_.policy == TracePolicy::kFifo) {
      line_.push_back(job);
    } else {
      shortest_.Add(DevicesOf(job), {Left(job), job});
    }
  }

  int FreeDevices() const {
    int free = options_.devices;
    for (const Unit& unit : units_) free -= unit.devices;
    return free;
  }

  void Assign() {
    if (options_.policy == TracePolicy::kFifo) {
      AssignInOrder();
    } else {
      AssignShortest();
    }
    for (Unit& unit : units_) {
      unit.speeds = unit.jobs.size() == 2 ? Rates(unit.jobs[0], unit.jobs[1]) : Pair{1, 1};
    }
  }

  void AssignInOrder() {
    int free = FreeDevices();
    for (; !line_.empty(); line_.pop_front()) {
      const int32_t job = line_.front();
      if (DevicesOf(job) <= free) {
        units_.push_back({DevicesOf(job), {job}, {1, 1}});
        free -= DevicesOf(job);
      } else if (Unit* unit = BestUnitFor(job)) {
        unit->jobs.push_back(job);
      } else {
        return;
      }
    }
  }

  // All over again: who runs may have to wait.
  void AssignShortest() {
    for (const Unit& unit : units_) {
      for (const int32_t job : unit.jobs) Queue(job);
    }
    units_.clear();
    int free = options_.devices;
    while (const std::optional<int32_t> job = shortest_.Take(free)) {
      units_.push_back({DevicesOf(*job), {*job}, {1, 1}});
      free -= DevicesOf(*job);
    }
    if (!options_.crossover) return;
    for (const ShortestFirst::Key& key : shortest_.First(kMostPartners)) {
      Unit* unit = BestUnitFor(key.second);
      if (unit == nullptr) continue;
      unit->jobs.push_back(key.second);
      shortest_.Remove(unit->devices, key);
    }
  }

  // The job's partner to be: where the sum of both completion times shrinks most.
  Unit* BestUnitFor(int32_t job) {
    if (!options_.crossover) return nullptr;
    Unit* best = nullptr;
    double most = -1e-9;
    for (Unit& unit : units_) {
      if (unit.devices != DevicesOf(job) || unit.jobs.size() != 1) continue;
      const double saved = SavedBySharing(unit.jobs[0], job);
      if (saved <= most) continue;
      most = saved;
      best = &unit;
    }
    return best;
  }

  Pair Rates(int32_t a, int32_t b) const {
    return RatesOf(jobs_[static_cast<size_t>(a)], jobs_[static_cast<size_t>(b)]);
  }

  double SavedBySharing(int32_t first, int32_t second) {
    const double a = Left(first);
    const double b = Left(second);
    const Pair speeds = Rates(first, second);
    const double a_end = a / speeds[0];
    const double b_end = b / speeds[1];
    const double early = std::min(a_end, b_end);
    const double late =
        a_end < b_end ? early + (b - early * speeds[1]) : early + (a - early * speeds[0]);
    // One after the other: the one that is there, or has the shorter rest, first.
    return (a + (a + b)) - (early + late);
  }

  double FirstEnd(double now) const {
    double end = kInfinity;
    for (const Unit& unit : units_) {
      for (size_t k = 0; k < unit.jobs.size(); ++k) {
        end = std::min(end, now + Left(unit.jobs[k]) / unit.speeds[k]);
      }
    }
    return end;
  }

  // What is left of rounding counts as done; so does what is too little to move the clock.
  void Work(double start, double end) {
    const double seconds = end - start;
    const double least = 1e-9 + 1e-15 * end;
    for (const Unit& unit : units_) {
      device_seconds_ += unit.devices * seconds;
      for (size_t k = 0; k < unit.jobs.size(); ++k) {
        double& left = Left(unit.jobs[k]);
        left -= seconds * unit.speeds[k];
        const double whole = jobs_[static_cast<size_t>(unit.jobs[k])].length();
        if (left <= 1e-9 * whole + least) left = 0;
      }
    }
  }

  void Retire(double now) {
    for (Unit& unit : units_) {
      for (const int32_t job : unit.jobs) {
        if (Left(job) == 0) done_[static_cast<size_t>(job)] = now;
      }
      std::erase_if(unit.jobs, [&](int32_t job) { return Left(job) == 0; });
    }
    std::erase_if(units_, [](const Unit& unit) { return unit.jobs.empty(); });
  }

  std::vector<TraceUnit> Told() const {
    std::vector<TraceUnit> told;
    for (const Unit& unit : units_) {
      told.push_back({unit.devices, unit.jobs, {}});
      for (size_t k = 0; k < unit.jobs.size(); ++k) {
        told.back().rates.push_back(unit.speeds[k] /
                                    jobs_[static_cast<size_t>(unit.jobs[k])].alone);
      }
    }
    return told;
  }

  TraceOutcome Outcome() {
    TraceOutcome outcome;
    std::vector<double> took;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      took.push_back(done_[j] - jobs_[j].arrival);
      outcome.makespan = std::max(outcome.makespan, done_[j] - jobs_[0].arrival);
    }
    outcome.mean =
        std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(took.size());
    // The smallest that 99 of 100 do not pass.
    const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(took.size()))) - 1;
    std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(rank), took.end());
    outcome.p99 = took[rank];
    outcome.done = std::move(done_);
    outcome.device_seconds = device_seconds_;
    return outcome;
  }

  std::span<const TraceJob> jobs_;
  const TraceOptions& options_;
  std::vector<double> left_;  // seconds alone
  std::vector<double> done_;
  std::deque<int32_t> line_;  // those who wait, one or the other by the policy
  ShortestFirst shortest_;
  std::vector<Unit> units_;
  double device_seconds_ = 0;
};

}  // namespace

std::string_view NameOf(TracePolicy policy) {
  return policy == TracePolicy::kFifo ? "fifo" : "shortest";
}

Result<TraceOutcome> ScheduleTrace(std::span<const TraceJob> jobs, const TraceOptions& options) {
  HEDDLE_CHECK(!jobs.empty());
  for (const TraceJob& job : jobs) {
    if (job.devices <= options.devices) continue;
    return Infeasible(fmt::format("line {}", job.line),
                      fmt::format("job {} wants {} devices and there are {}", job.name, job.devices,
                                  options.devices),
                      fmt::format("give --devices {} or more", job.devices));
  }
  return Scheduler(jobs, options).Run();
}

}  // namespace heddle
