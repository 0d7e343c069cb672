// A jobs file: training jobs that may take turns on the devices of one cluster. docs/share.md
// explains it by example.
//
//   HEDDLE_ASSIGN(JobsFile jobs, LoadJobs("jobs.toml"));
//   for (const JobSpec& job : jobs.jobs) …                  // as written; nothing is planned yet
//
// Invariants: at least one job; names are different, and fit for file names; either `plan` or
// `request.model` is given; numbers are finite and in range. Paths are as seen from the caller:
// those of the file, which are relative to it, have its folder put before them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "plan/planning.h"
#include "turns/turn_order.h"

namespace heddle {

inline constexpr char kJobsSchema[] = "heddle.jobs/1";

struct JobSpec {
  std::string name;
  std::string plan;      // path of a plan.json; empty: planned from what follows
  PlanRequest request;   //
  int64_t steps = 0;     // updates until it is done
  double weight = 1;     // its part of what sharing wins
  int64_t priority = 0;  // higher is more urgent: see docs/share.md
  std::optional<double> tolerated_slowdown;  // 1.3: a step may take 1.3 times as long as alone
  bool overlap = true;                       // gradients go in buckets while backward goes on
  std::vector<std::string> gradient_keys;    // of overlap, sync and compress those it states
};

struct ShareOptions {
  Seconds switch_cost;                     // each time a device goes over to another job
  double minimum_gain = 0.03;              // sharing that wins less is left
  double most_slowdown = 4;                // of a job that states no tolerated_slowdown
  TurnOrder order = TurnOrder::kRotation;  // or kDeficit
  Seconds lease;  // that a job may keep the others waiting in a run; 0: by what its turns take
};

struct JobsFile {
  std::string file;
  std::string cluster;  // path
  std::string profile;  // path of measured times of ops; may be empty
  ShareOptions share;
  std::vector<JobSpec> jobs;
};

Result<JobsFile> ParseJobs(const std::string& text, const std::string& file);
Result<JobsFile> LoadJobs(const std::string& path);

}  // namespace heddle
