// What a share took, against its jobs alone one after the other. Gains, slowdowns, periods and how
// busy devices were are those of the steady part (steady_part.h); seconds until jobs were done have
// all of it.
//
//   const ShareSummary summary = Summarise(runs);
//   summary.gain->mean, summary.jobs[0].slowdown->low
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/interval.h"
#include "base/json_field.h"
#include "run/share/seat.h"
#include "run/share/supervisor.h"

namespace heddle {

// One job in one phase: what became of it, and what its ranks noted. The outcome of one that ended
// well ends with its last step.
struct JobRun {
  JobOutcome outcome;
  std::vector<RankNotes> ranks;  // empty if it failed

  double seconds() const { return static_cast<double>(outcome.ended - outcome.began) * 1e-9; }
  const std::vector<int64_t>& step_ends() const;
};

// The least period in which every job makes one step: max(sum c, sum m, max (c + m)), with c the
// seconds on the device and m those on the network (docs/share.md).
struct StepParts {
  double compute = 0, network = 0;
};
double PeriodBound(std::span<const StepParts> jobs);

// As measured alone: the time with the device, of the rank that had it longest, and the rest of a
// step.
StepParts MeasuredParts(const JobRun& alone);

// Whether every rank's hash after every step is the same. Nothing if one of them is missing.
std::optional<bool> SameHashes(const JobRun& alone, const JobRun& shared);

// What was run.
struct ShareRuns {
  std::vector<JobRun> alone;   // by job; empty if that was left out
  std::vector<JobRun> shared;  // by job
  struct Group {
    std::vector<int32_t> jobs;
    bool whole_steps = true;  // none of its jobs waits in mid-step
  };
  std::vector<Group> groups;      // that followed each other
  std::vector<StepParts> parts;   // by job, of the modelled cluster or as alone; may be empty
  std::vector<double> predicted;  // by job: seconds of its step, simulated; may be empty
  size_t devices = 1;             //
  double dilation = 0;            // 0: real
  bool shaped = false;            // emulated devices, links of the cluster's rate
};

struct ShareSummary {
  struct Job {
    std::string name;
    bool well = false;
    std::string why;
    double alone_seconds = 0, shared_seconds = 0;            // until its last step was done
    double alone_step_seconds = 0, shared_step_seconds = 0;  // in the steady part; 0: none
    double predicted_step_seconds = 0;                       // 0: nobody did
    std::optional<Interval> slowdown;                        // of a step
    std::optional<bool> hashes_equal;
  };
  std::vector<Job> jobs;
  double serial_seconds = 0;  // all jobs, one after the other
  double shared_seconds = 0;  // until the last one was done
  double serial_mean_completion = 0, shared_mean_completion = 0;
  int64_t turns = 0;      // in the steady part, of the job that had fewest
  double gain_limit = 0;  // 2 where jobs take whole steps; never more than there are jobs
  // Nothing: a job failed or was not run alone, the measurement was impossible, or too short.
  std::optional<Interval> gain;
  bool impossible = false;
  std::optional<Interval> period;  // in which every job makes a step; groups one after the other
  double period_bound = 0;         // 0: there is none
  // Parts of the time in which devices were held, and in which the network should have been busy.
  struct Use {
    double devices = 0, network = 0;
  };
  Use serial_use, shared_use;
  bool emulated = false, shaped = false;
  double dilation = 1;
  int64_t deadlines = 0, missed = 0;

  bool hashes_equal() const;  // of all jobs that ended well, and at least one
  const Job* failed() const;  // the first
  bool enough_turns() const;
  // Emulated devices kept their time: at most 1% of deadlines were missed.
  bool kept_time() const;
};

ShareSummary Summarise(const ShareRuns& runs);

Json ShareSummaryToJson(const ShareSummary& summary);
std::string ShareSummaryText(const ShareSummary& summary);

}  // namespace heddle
