// What a share took, against its jobs alone one after the other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "run/share/seat.h"
#include "run/share/supervisor.h"

namespace heddle {

// One job in one phase: what became of it, and what its ranks noted.
struct JobRun {
  JobOutcome outcome;
  std::vector<RankNotes> ranks;  // empty if it failed

  double seconds() const { return static_cast<double>(outcome.ended - outcome.began) * 1e-9; }
};

// The least period in which every job makes one step: max(sum c, sum m, max (c + m)), with c the
// seconds on the device and m those on the network (docs/share.md).
struct StepParts {
  double compute = 0, network = 0;
};
double PeriodBound(std::span<const StepParts> jobs);

// The median step of the slowest job, over the time in which all are at work: every job makes one
// in it, at least. 0 if that is too short.
double MeasuredPeriod(std::span<const JobRun> shared);

// Whether every rank's hash after every step is the same. Nothing if one of them is missing.
std::optional<bool> SameHashes(const JobRun& alone, const JobRun& shared);

struct ShareSummary {
  struct Job {
    std::string name;
    bool well = false;
    std::string why;
    double alone_seconds = 0, shared_seconds = 0;  // until it was done
    std::optional<bool> hashes_equal;
    double slowdown() const { return alone_seconds > 0 ? shared_seconds / alone_seconds : 0; }
  };
  std::vector<Job> jobs;
  double serial_seconds = 0;  // all jobs, one after the other
  double shared_seconds = 0;  // until the last one was done
  double serial_mean_completion = 0, shared_mean_completion = 0;
  double measured_period = 0, period_bound = 0;  // 0: there is none
  // Parts of the time in which devices were held, and in which the network should have been busy.
  struct Use {
    double devices = 0, network = 0;
  };
  Use serial_use, shared_use;
  bool emulated = false;
  double dilation = 1;
  int64_t deadlines = 0, missed = 0;

  // 0 if a job failed: what is left is not the same work.
  double gain() const {
    return shared_seconds > 0 && failed() == nullptr ? serial_seconds / shared_seconds : 0;
  }
  bool hashes_equal() const;  // of all jobs that ended well, and at least one
  const Job* failed() const;  // the first
};

// `alone` may be empty, `parts` too. Seconds are divided by the dilation.
ShareSummary Summarise(std::span<const JobRun> alone, std::span<const JobRun> shared,
                       std::span<const StepParts> parts, size_t devices, double dilation);

Json ShareSummaryToJson(const ShareSummary& summary);
std::string ShareSummaryText(const ShareSummary& summary);

}  // namespace heddle
