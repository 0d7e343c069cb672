#include "run/share/share_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace heddle {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string Time(double seconds) { return ToText(Seconds{seconds}); }

// `seconds` of the modelled cluster, `scale` of them in a second here.
ShareSummary::Use UseOf(std::span<const JobRun> runs, std::span<const StepParts> parts,
                        size_t devices, double seconds, double scale) {
  ShareSummary::Use use;
  if (seconds <= 0) return use;
  for (size_t k = 0; k < runs.size(); ++k) {
    for (const RankNotes& rank : runs[k].ranks) {
      use.devices += scale * static_cast<double>(rank.held) * 1e-9;
    }
    if (k < parts.size() && !runs[k].ranks.empty()) {
      use.network += parts[k].network * static_cast<double>(runs[k].ranks[0].step_ends.size());
    }
  }
  return {use.devices / seconds / static_cast<double>(devices), use.network / seconds};
}

}  // namespace

double PeriodBound(std::span<const StepParts> jobs) {
  double compute = 0, network = 0, longest = 0;
  for (const StepParts& job : jobs) {
    compute += job.compute;
    network += job.network;
    longest = std::max(longest, job.compute + job.network);
  }
  return std::max({compute, network, longest});
}

double MeasuredPeriod(std::span<const JobRun> shared) {
  int64_t from = 0, until = INT64_MAX;
  for (const JobRun& job : shared) {
    if (job.ranks.empty() || job.ranks[0].step_ends.size() < 3) return 0;
    const std::vector<int64_t>& ends = job.ranks[0].step_ends;
    from = std::max(from, ends[1]);  // the first steps are cold
    until = std::min(until, ends.back());
  }
  double slowest = 0;
  for (const JobRun& job : shared) {
    std::vector<double> steps;
    const std::vector<int64_t>& ends = job.ranks[0].step_ends;
    for (size_t k = 1; k < ends.size(); ++k) {
      if (ends[k - 1] < from || ends[k] > until) continue;
      steps.push_back(static_cast<double>(ends[k] - ends[k - 1]) * 1e-9);
    }
    slowest = std::max(slowest, Median(std::move(steps)));
  }
  return slowest;
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

ShareSummary Summarise(std::span<const JobRun> alone, std::span<const JobRun> shared,
                       std::span<const StepParts> parts, size_t devices, double dilation) {
  ShareSummary summary;
  const double scale = dilation > 0 ? 1 / dilation : 1;
  summary.emulated = dilation > 0;
  summary.dilation = dilation > 0 ? dilation : 1;
  int64_t start = INT64_MAX;
  for (const JobRun& job : shared) {
    if (job.outcome.began > 0) start = std::min(start, job.outcome.began);
  }
  for (size_t k = 0; k < shared.size(); ++k) {
    const JobRun& run = shared[k];
    ShareSummary::Job job{run.outcome.name, run.outcome.well, run.outcome.why, 0, 0, {}};
    if (run.outcome.began > 0) {
      job.shared_seconds = scale * static_cast<double>(run.outcome.ended - start) * 1e-9;
      summary.shared_seconds = std::max(summary.shared_seconds, job.shared_seconds);
    }
    if (k < alone.size()) {
      job.alone_seconds = scale * alone[k].seconds();
      summary.serial_seconds += job.alone_seconds;
      summary.serial_mean_completion += summary.serial_seconds;
      job.hashes_equal = SameHashes(alone[k], run);
    }
    summary.shared_mean_completion += job.shared_seconds;
    for (const RankNotes& rank : run.ranks) {
      summary.deadlines += rank.deadlines;
      summary.missed += rank.missed;
    }
    summary.jobs.push_back(std::move(job));
  }
  const auto count = static_cast<double>(std::max<size_t>(1, shared.size()));
  summary.serial_mean_completion /= count;
  summary.shared_mean_completion /= count;
  summary.serial_use = UseOf(alone, parts, devices, summary.serial_seconds, scale);
  summary.shared_use = UseOf(shared, parts, devices, summary.shared_seconds, scale);
  return summary;
}

Json ShareSummaryToJson(const ShareSummary& summary) {
  Json jobs = Json::array();
  for (const ShareSummary::Job& job : summary.jobs) {
    Json line = {{"name", job.name},
                 {"ended_well", job.well},
                 {"alone_seconds", job.alone_seconds},
                 {"shared_seconds", job.shared_seconds},
                 {"slowdown", job.slowdown()}};
    if (job.hashes_equal) line["hashes_equal"] = *job.hashes_equal;
    if (!job.well) line["why"] = job.why;
    jobs.push_back(std::move(line));
  }
  return {{"schema", "heddle.share-run/1"},
          {"serial_seconds", summary.serial_seconds},
          {"shared_seconds", summary.shared_seconds},
          {"measured_gain", summary.gain()},
          {"serial_mean_completion_seconds", summary.serial_mean_completion},
          {"shared_mean_completion_seconds", summary.shared_mean_completion},
          {"measured_period_seconds", summary.measured_period},
          {"period_bound_seconds", summary.period_bound},
          {"serial_device_use", summary.serial_use.devices},
          {"shared_device_use", summary.shared_use.devices},
          {"serial_network_use", summary.serial_use.network},
          {"shared_network_use", summary.shared_use.network},
          {"hashes_equal", summary.hashes_equal()},
          {"emulated", summary.emulated},
          {"dilation", summary.dilation},
          {"deadlines", summary.deadlines},
          {"missed_deadlines", summary.missed},
          {"jobs", std::move(jobs)}};
}

std::string ShareSummaryText(const ShareSummary& summary) {
  std::string text;
  const bool compared = summary.serial_seconds > 0;
  for (const ShareSummary::Job& job : summary.jobs) {
    text += fmt::format("{:<12}", job.name);
    if (!job.well) {
      text += fmt::format("failed: {}\n", job.why);
      continue;
    }
    text += fmt::format("done after {}", Time(job.shared_seconds));
    if (compared) {
      text += fmt::format(", {:.2f} times as long as alone ({})", job.slowdown(),
                          Time(job.alone_seconds));
    }
    if (job.hashes_equal) {
      text += *job.hashes_equal ? "; parameters equal after every step"
                                : "; PARAMETERS DIFFER from those alone";
    }
    text += "\n";
  }
  const char* kind = summary.emulated ? "emulated" : "real";
  text += fmt::format("all done    after {} ({})", Time(summary.shared_seconds), kind);
  if (compared && summary.failed() == nullptr) {
    text += fmt::format(
        ", one after the other {}: gain {:.2f}\nmean        {} until a job is "
        "done, one after the other {}",
        Time(summary.serial_seconds), summary.gain(), Time(summary.shared_mean_completion),
        Time(summary.serial_mean_completion));
  }
  text += "\n";
  if (compared && summary.failed() == nullptr) {
    text += fmt::format("devices     {:.1f}% of the time at work, one after the other {:.1f}%\n",
                        100 * summary.shared_use.devices, 100 * summary.serial_use.devices);
    if (summary.shared_use.network > 0) {
      text += fmt::format("network     {:.1f}%, one after the other {:.1f}%\n",
                          100 * summary.shared_use.network, 100 * summary.serial_use.network);
    }
  }
  if (summary.measured_period > 0 && summary.period_bound > 0) {
    text += fmt::format("period      {} measured, {} at least (T*): {:+.1f}%\n",
                        Time(summary.measured_period), Time(summary.period_bound),
                        100 * (summary.measured_period / summary.period_bound - 1));
  }
  if (summary.emulated && summary.deadlines > 0) {
    const double share =
        100 * static_cast<double>(summary.missed) / static_cast<double>(summary.deadlines);
    text += fmt::format("pace        time {:.3g} times slower, {} of {} deadlines missed{}\n",
                        summary.dilation, summary.missed, summary.deadlines,
                        share > 1 ? ": not valid, give a larger --dilate" : "");
  }
  return text;
}

}  // namespace heddle
