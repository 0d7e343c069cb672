// PlannedJob: a job of the file with its plan, its Program, and what it takes of the devices alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "plan/planning.h"
#include "program/segment_cost.h"
#include "program/unroll.h"
#include "share/jobs.h"
#include "turns/period_model.h"

namespace heddle {

// Of one device of the cluster.
struct JobMemory {
  Bytes kept;     // weights, optimizer state and gradients: there between turns as well
  Bytes passing;  // activations: of a job that computes in whole turns, only during its own

  Bytes peak() const { return kept + passing; }
};

struct PlannedJob {
  JobSpec spec;
  Plan plan;
  std::shared_ptr<const Planning> planning;
  Program program;
  SegmentSeconds seconds;
  JobTimes times;  // alone, simulated
  // Data parallel: it communicates only at the end of backward, so one turn is one iteration
  // (run/share/turn_count.h).
  bool whole_turns = false;
  std::vector<JobMemory> memory;  // by device of the cluster
  std::vector<Seconds> busy;      // by device of the cluster: computing in one iteration

  // How often its body runs. A round of LocalSGD is one iteration of several steps.
  double iterations() const {
    return static_cast<double>(spec.steps) / static_cast<double>(StepsPerBody(program));
  }
};

// Plans, lowers, checks and simulates. The cluster and the profile, which may be null, must outlive
// it. A job given by plan.json must be made for this cluster.
Result<PlannedJob> PlanJob(const JobSpec& spec, const Cluster& cluster, const Profile* profile);

// The same job with its gradients sent in buckets while backward goes on, or all after it.
Result<PlannedJob> WithOverlap(const PlannedJob& job, bool overlap);

}  // namespace heddle
