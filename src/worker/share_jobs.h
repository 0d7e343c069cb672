// The jobs of a share, ready to run: plans loaded and lowered, their times modelled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/segment_cost.h"
#include "run/share/share_config.h"
#include "run/share/share_summary.h"
#include "run/train/train.h"
#include "worker/commands.h"

namespace heddle {

struct ShareJob {
  ShareJobConfig config;
  PlanAndProfile both;
  Training training;
  std::vector<int32_t> devices;  // of the share, by rank
  int64_t repetitions = 0;       // of the Program's body
  int64_t turns = 0;
  bool whole_steps = false;
  int64_t messages = 0;  // in a body, of the device that has most
  StepParts modelled;    // seconds of a step on the plan's cluster
  JobTimes times;        // the same as planned, where that is known: what the order is made from
  SegmentSeconds segment_seconds;
  std::vector<DeviceId> cluster_devices;  // by rank
  double byte_scale = 1;                  // bytes of the plan's type per byte computed in

  // Of the body, alone.
  double step_seconds() const {
    return whole_steps ? modelled.compute + modelled.network
                       : both.loaded.plan.estimate.iteration_seconds;
  }
};

// The devices that the jobs share, by name, and the node of each.
struct ShareDevices {
  std::vector<std::string> names;
  std::vector<int32_t> node_of;
};

// Loads a job. A device that is not known yet is added if `grow`, and refused otherwise.
Result<std::unique_ptr<ShareJob>> LoadShareJob(const ShareJobConfig& config, ShareDevices& devices,
                                               bool grow);

}  // namespace heddle
