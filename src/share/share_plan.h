// SharePlan: which jobs take turns on the same devices, how fast each then is, and why others do
// not.
//
//   HEDDLE_ASSIGN(ShareInputs inputs, LoadShareInputs(jobs_file));
//   HEDDLE_ASSIGN(SharePlan plan, MakeSharePlan(inputs));
//   for (const ShareGroup& group : plan.groups) … group.jobs, group.period
//
// Groups run one after the other, each on all devices its jobs use; a group of one job is that job
// alone. What is reported of a group is simulated (simulate/joint.h), not the model's T*.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "cost/profile.h"
#include "share/completion.h"
#include "share/jobs.h"
#include "share/planned_job.h"
#include "simulate/joint.h"

namespace heddle {

// A jobs file and what it names, planned.
struct ShareInputs {
  JobsFile file;
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;  // may be null
  std::vector<PlannedJob> jobs;            // as in the file
};
Result<ShareInputs> LoadShareInputs(JobsFile file);

// How full device and network are: the part of the time in which they are at work.
struct ShareUse {
  double device = 0;  // the mean over the devices
  double network = 0;
};

struct ShareGroup {
  std::vector<size_t> jobs;  // into ShareInputs::jobs; in this order they take turns
  DeviceSharing devices = DeviceSharing::kTurns;  // kFirstCome where a job waits in mid-step
  std::vector<int32_t> sequence;   // of places in `jobs`: who computes, over and over
  Seconds best_period;             // T* of one turn each
  Seconds period;                  // one pass of the sequence, simulated
  std::vector<Seconds> iteration;  // by job: of one step
  std::vector<double> slowdown;    // by job: that over its time alone
  double gain = 0;                 // steps in the same time, over one after the other, minus 1
  std::vector<Bytes> memory;       // by device of the cluster
  ShareUse use;                    //
  Completion alone;                // of its jobs, one after the other
  Completion together;             //
  JobTimeline timeline;            // of more than one job
  std::vector<std::string> notes;  // sentences without their full stop
};

// A group that was considered and left.
struct ShareRefusal {
  std::vector<size_t> jobs;
  std::string reason;
};

struct SharePlan {
  std::vector<ShareGroup> groups;      // in the order they run
  std::vector<ShareRefusal> refusals;  // of jobs that are alone: with whom, and why not
  Completion alone;                    // of all jobs, one after the other
  Completion shared;                   // group after group
  ShareUse use_alone, use_shared;      //
  double predicted_gain = 0;           // makespan of one after the other over this, minus 1
};

Result<SharePlan> MakeSharePlan(const ShareInputs& inputs);

// Seconds of a step of each of these jobs if they share, in the file's order, simulated.
Result<std::vector<Seconds>> SimulatedSteps(const ShareInputs& inputs,
                                            const std::vector<size_t>& jobs);

// Bytes that a group needs on each device: of all jobs what stays, and activations of those that
// may be there at the same time.
std::vector<Bytes> GroupMemory(const ShareInputs& inputs, const std::vector<size_t>& jobs);

}  // namespace heddle
