#include "share/trace_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "turns/fair_share.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// How far down the queue partners are looked for: further ones wait long anyway.
constexpr size_t kMostPartners = 128;

using Pair = std::array<double, 2>;

// Jobs that need the same have the same rates with each other: few kinds, so a table.
class PairRates {
 public:
  explicit PairRates(std::span<const TraceJob> jobs) {
    std::map<std::pair<double, std::array<double, kTraceResourceCount>>, size_t> kinds;
    for (const TraceJob& job : jobs) {
      const auto [found, is_new] = kinds.try_emplace({job.alone, job.needs}, kinds.size());
      if (is_new) examples_.push_back(&job);
      kind_of_.push_back(found->second);
    }
    if (examples_.size() <= kMostKinds) table_.resize(examples_.size() * examples_.size());
  }

  // Parts of their speed alone that two jobs get on at, together.
  Pair Of(int32_t a, int32_t b) {
    const size_t first = kind_of_[static_cast<size_t>(a)];
    const size_t second = kind_of_[static_cast<size_t>(b)];
    if (table_.empty()) return Compute(*examples_[first], *examples_[second]);
    std::optional<Pair>& known = table_[first * examples_.size() + second];
    if (!known) known = Compute(*examples_[first], *examples_[second]);
    return *known;
  }

 private:
  static constexpr size_t kMostKinds = 2048;

  static Pair Compute(const TraceJob& a, const TraceJob& b) {
    std::array<std::vector<FlowLoad>, 2> loads;
    std::vector<FairFlow> flows;
    for (size_t k = 0; k < 2; ++k) {
      const TraceJob& job = k == 0 ? a : b;
      for (size_t r = 0; r < kTraceResourceCount; ++r) {
        if (job.needs[r] == 0) continue;
        loads[k].push_back({static_cast<int32_t>(r), job.needs[r] / job.alone});
      }
      flows.push_back({loads[k], 1.0});
    }
    const std::vector<double> full(kTraceResourceCount, 1.0);
    const std::vector<double> rates = FairRates(flows, full);
    return {rates[0], rates[1]};
  }

  std::vector<const TraceJob*> examples_;
  std::vector<size_t> kind_of_;
  std::vector<std::optional<Pair>> table_;
};

class Scheduler {
 public:
  Scheduler(std::span<const TraceJob> jobs, const TraceOptions& options)
      : jobs_(jobs), options_(options), rates_(jobs), left_(jobs.size()), done_(jobs.size(), 0) {
    for (size_t j = 0; j < jobs.size(); ++j) left_[j] = jobs[j].length();
  }

  TraceOutcome Run() {
    size_t next = 0;  // to arrive
    double now = jobs_[0].arrival;
    while (next < jobs_.size() || !waiting_.empty() || !units_.empty()) {
      for (; next < jobs_.size() && jobs_[next].arrival <= now; ++next) {
        waiting_.push_back(static_cast<int32_t>(next));
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
      unit.speeds = unit.jobs.size() == 2 ? rates_.Of(unit.jobs[0], unit.jobs[1]) : Pair{1, 1};
    }
  }

  void AssignInOrder() {
    int free = FreeDevices();
    size_t taken = 0;
    for (; taken < waiting_.size(); ++taken) {
      const int32_t job = waiting_[taken];
      if (DevicesOf(job) <= free) {
        units_.push_back({DevicesOf(job), {job}, {1, 1}});
        free -= DevicesOf(job);
      } else if (Unit* unit = BestUnitFor(job)) {
        unit->jobs.push_back(job);
      } else {
        break;
      }
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken));
  }

  // All over again: who runs may have to wait.
  void AssignShortest() {
    for (const Unit& unit : units_) {
      waiting_.insert(waiting_.end(), unit.jobs.begin(), unit.jobs.end());
    }
    units_.clear();
    std::sort(waiting_.begin(), waiting_.end(),
              [&](int32_t a, int32_t b) { return Left(a) != Left(b) ? Left(a) < Left(b) : a < b; });
    int free = options_.devices;
    std::vector<int32_t> rest;
    for (const int32_t job : waiting_) {
      if (DevicesOf(job) <= free) {
        units_.push_back({DevicesOf(job), {job}, {1, 1}});
        free -= DevicesOf(job);
      } else {
        rest.push_back(job);
      }
    }
    waiting_.clear();
    for (size_t k = 0; k < rest.size(); ++k) {
      Unit* unit = k < kMostPartners ? BestUnitFor(rest[k]) : nullptr;
      if (unit != nullptr) {
        unit->jobs.push_back(rest[k]);
      } else {
        waiting_.push_back(rest[k]);
      }
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

  double SavedBySharing(int32_t first, int32_t second) {
    const double a = Left(first);
    const double b = Left(second);
    const Pair speeds = rates_.Of(first, second);
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
  PairRates rates_;
  std::vector<double> left_;  // seconds alone
  std::vector<double> done_;
  std::vector<int32_t> waiting_;
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
