// Measuring this machine: the ops of a model where they run, and what a cluster file states.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cost/profile.h"
#include "model/zoo.h"

namespace heddle {

struct MeasureOptions {
  std::string model;
  ModelOptions options;       // the batch is ignored
  std::vector<int64_t> rows;  // numbers of samples to measure
  std::string type = "cpu";   // the device type to file the times under
  int64_t steps = 5;          // after one to warm up
};

// Trains the model on one device for a few steps with each number of samples, and times every op in
// place: with the caches as training leaves them. Of an op the median over steps counts, of ops
// with the same signature the mean. Calls `note` before each number of samples.
Status MeasureModel(const MeasureOptions& options, Profile& profile,
                    const std::function<void(const std::string&)>& note);

struct MachineSpeeds {
  int devices = 1;  // cores
  Bytes memory;     // of each
  FlopRate flops;   // of one core: a product of large fp32 matrices
  Bandwidth memory_bandwidth;
  Seconds launch;               // of the smallest op
  Bandwidth link;               // between two devices, as processes talk
  Bandwidth message_bandwidth;  // of a core that moves the bytes of a collective
  Seconds latency;
};

Result<MachineSpeeds> MeasureMachine();

// A cluster file of one node with all of them.
std::string ClusterText(const MachineSpeeds& speeds, const std::string& type);

}  // namespace heddle
