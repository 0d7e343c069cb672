#include "run/share/share_summary.h"

#include <algorithm>
#include <numeric>

#include "run/share/steady_part.h"

namespace heddle {
namespace {

double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Seconds with the device in one of the steps.
double HeldPerStep(const RankNotes& rank, const SteadyPart::Steps& steps) {
  if (steps.count() == 0 || rank.held.size() <= steps.last) return 0;
  return static_cast<double>(rank.held[steps.last] - rank.held[steps.first]) * 1e-9 /
         static_cast<double>(steps.count());
}

double HeldByAll(const JobRun& run, const SteadyPart::Steps& steps) {
  double held = 0;
  for (const RankNotes& rank : run.ranks) held += HeldPerStep(rank, steps);
  return held;
}

class Summary {
 public:
  explicit Summary(const ShareRuns& runs)
      : runs_(runs), scale_(runs.dilation > 0 ? 1 / runs.dilation : 1) {
    s_.emulated = runs.dilation > 0;
    s_.shaped = runs.shaped;
    s_.dilation = runs.dilation > 0 ? runs.dilation : 1;
  }

  ShareSummary Make() {
    AddJobs();
    if (s_.failed() == nullptr) {
      s_.turns = runs_.groups.empty() ? 0 : INT64_MAX;
      for (const ShareRuns::Group& group : runs_.groups) AddGroup(group);
      Finish();
    }
    return std::move(s_);
  }

 private:
  bool compared() const { return !runs_.alone.empty(); }

  void AddJobs() {
    int64_t start = INT64_MAX;
    for (const JobRun& job : runs_.shared) {
      if (job.outcome.began > 0) start = std::min(start, job.outcome.began);
    }
    for (size_t k = 0; k < runs_.shared.size(); ++k) {
      const JobRun& run = runs_.shared[k];
      ShareSummary::Job job;
      job.name = run.outcome.name;
      job.well = run.outcome.well;
      job.why = run.outcome.why;
      if (k < runs_.predicted.size()) job.predicted_step_seconds = runs_.predicted[k];
      if (run.outcome.began > 0) {
        job.shared_seconds = scale_ * static_cast<double>(run.outcome.ended - start) * 1e-9;
        s_.shared_seconds = std::max(s_.shared_seconds, job.shared_seconds);
      }
      if (compared()) {
        job.alone_seconds = scale_ * runs_.alone[k].seconds();
        s_.serial_seconds += job.alone_seconds;
        s_.serial_mean_completion += s_.serial_seconds;
        job.hashes_equal = SameHashes(runs_.alone[k], run);
        CountDeadlines(runs_.alone[k]);
      }
      s_.shared_mean_completion += job.shared_seconds;
      CountDeadlines(run);
      s_.jobs.push_back(std::move(job));
    }
    const auto count = static_cast<double>(std::max<size_t>(1, runs_.shared.size()));
    s_.serial_mean_completion /= count;
    s_.shared_mean_completion /= count;
  }

  void CountDeadlines(const JobRun& run) {
    for (const RankNotes& rank : run.ranks) {
      s_.deadlines += rank.deadlines;
      s_.missed += rank.missed;
    }
  }

  void AddGroup(const ShareRuns::Group& group) {
    std::vector<StepEnds> alone, shared;
    for (const int32_t k : group.jobs) {
      const auto job = static_cast<size_t>(k);
      if (compared()) alone.push_back(runs_.alone[job].step_ends());
      shared.push_back(runs_.shared[job].step_ends());
    }
    const SteadyPart part = SteadyPartOf(alone, shared);
    const auto count = static_cast<double>(group.jobs.size());
    const double limit = group.whole_steps ? std::min(2.0, count) : count;
    const SteadyFigures figures = FiguresOf(part, limit);
    s_.turns = std::min(s_.turns, part.turns());
    s_.gain_limit = std::max(s_.gain_limit, limit);
    s_.impossible = s_.impossible || figures.impossible;
    AddPeriod(group, figures);
    AddSteps(group, part, figures);
  }

  void AddPeriod(const ShareRuns::Group& group, const SteadyFigures& figures) {
    if (!figures.period) all_have_periods_ = false;
    const Interval period = figures.period.value_or(Interval{});
    period_.mean += scale_ * period.mean;
    period_.low += scale_ * period.low;
    period_.high += scale_ * period.high;
    if (runs_.parts.empty() || !group.whole_steps) {
      all_have_bounds_ = false;
      return;
    }
    std::vector<StepParts> parts;
    for (const int32_t k : group.jobs) parts.push_back(runs_.parts[static_cast<size_t>(k)]);
    s_.period_bound += PeriodBound(parts);
  }

  // Of each job its steps; and of the group the time that all its steps take, alone and shared.
  void AddSteps(const ShareRuns::Group& group, const SteadyPart& part,
                const SteadyFigures& figures) {
    double serial = 0;
    ShareSummary::Use busy, used;
    for (size_t place = 0; place < group.jobs.size(); ++place) {
      const auto k = static_cast<size_t>(group.jobs[place]);
      ShareSummary::Job& job = s_.jobs[k];
      job.shared_step_seconds = scale_ * MeanOf(part.shared[place]);
      job.slowdown = figures.slowdown[place];
      if (!compared()) continue;
      job.alone_step_seconds = scale_ * MeanOf(part.alone[place]);
      const auto steps = static_cast<double>(runs_.alone[k].step_ends().size());
      serial += steps * job.alone_step_seconds;
      const double network = runs_.parts.empty() ? 0 : runs_.parts[k].network;
      busy.devices += steps * scale_ * HeldByAll(runs_.alone[k], part.alone_steps[place]);
      busy.network += steps * network;
      if (job.shared_step_seconds <= 0) continue;
      used.devices +=
          scale_ * HeldByAll(runs_.shared[k], part.shared_steps[place]) / job.shared_step_seconds;
      used.network += network / job.shared_step_seconds;
    }
    if (!figures.gain) {
      all_have_gains_ = false;
      return;
    }
    serial_ += serial;
    serial_busy_.devices += busy.devices;
    serial_busy_.network += busy.network;
    const double shared = serial / figures.gain->mean;
    shared_.mean += shared;
    shared_.low += serial / figures.gain->high;
    if (figures.gain->low > 0) shared_.high += serial / figures.gain->low;
    shared_busy_.devices += shared * used.devices;
    shared_busy_.network += shared * used.network;
  }

  void Finish() {
    if (all_have_periods_ && !runs_.groups.empty()) s_.period = period_;
    if (!all_have_bounds_) s_.period_bound = 0;
    if (!compared() || !all_have_gains_ || shared_.mean <= 0 || serial_ <= 0) return;
    s_.gain = Interval{serial_ / shared_.mean, shared_.high > 0 ? serial_ / shared_.high : 0,
                       serial_ / shared_.low};
    const auto devices = static_cast<double>(runs_.devices);
    s_.serial_use = {serial_busy_.devices / serial_ / devices, serial_busy_.network / serial_};
    s_.shared_use = {shared_busy_.devices / shared_.mean / devices,
                     shared_busy_.network / shared_.mean};
  }

  const ShareRuns& runs_;
  double scale_;
  ShareSummary s_;
  Interval period_, shared_;  // seconds
  double serial_ = 0;
  ShareSummary::Use serial_busy_, shared_busy_;  // seconds
  bool all_have_gains_ = true, all_have_periods_ = true, all_have_bounds_ = true;
};

}  // namespace

const std::vector<int64_t>& JobRun::step_ends() const {
  static const std::vector<int64_t> none;
  return ranks.empty() ? none : ranks[0].step_ends;
}

double PeriodBound(std::span<const StepParts> jobs) {
  double compute = 0, network = 0, longest = 0;
  for (const StepParts& job : jobs) {
    compute += job.compute;
    network += job.network;
    longest = std::max(longest, job.compute + job.network);
  }
  return std::max({compute, network, longest});
}

StepParts MeasuredParts(const JobRun& alone) {
  const StepEnds ends[] = {alone.step_ends()};
  const SteadyPart part = SteadyPartOf({}, ends);
  StepParts parts;
  for (const RankNotes& rank : alone.ranks) {
    parts.compute = std::max(parts.compute, HeldPerStep(rank, part.shared_steps[0]));
  }
  parts.network = std::max(0.0, MeanOf(part.shared[0]) - parts.compute);
  return parts;
}

std::optional<bool> SameHashes(const JobRun& alone, const JobRun& shared) {
  if (alone.ranks.empty() || alone.ranks.size() != shared.ranks.size()) return std::nullopt;
  for (size_t rank = 0; rank < alone.ranks.size(); ++rank) {
    if (alone.ranks[rank].hashes.empty()) return std::nullopt;
    if (alone.ranks[rank].hashes != shared.ranks[rank].hashes) return false;
  }
  return true;
}

bool ShareSummary::hashes_equal() const {
  bool any = false;
  for (const Job& job : jobs) {
    if (!job.well) continue;
    if (!job.hashes_equal.value_or(false)) return false;
    any = true;
  }
  return any;
}

const ShareSummary::Job* ShareSummary::failed() const {
  const auto found =
      std::find_if(jobs.begin(), jobs.end(), [](const Job& job) { return !job.well; });
  return found == jobs.end() ? nullptr : &*found;
}

bool ShareSummary::enough_turns() const { return turns >= kEnoughTurns; }

bool ShareSummary::kept_time() const {
  constexpr double kMostMissed = 0.01;
  return static_cast<double>(missed) <= kMostMissed * static_cast<double>(deadlines);
}

ShareSummary Summarise(const ShareRuns& runs) { return Summary(runs).Make(); }

}  // namespace heddle
