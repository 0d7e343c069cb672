// RunRecord: what the first rank of a run writes down and tells, step by step.
//
//   HEDDLE_ASSIGN(RunRecord record, RunRecord::Open(training, dtype, done, listener));
//   HEDDLE_RETURN_IF_ERROR(record.AddSteps(done, losses, seconds, rates));
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/run_files.h"
#include "run/train/train.h"

namespace heddle {

class RunRecord {
 public:
  // The run's directory is made, or found where training goes on after `done` steps.
  static Result<RunRecord> Open(const Training& training, DType dtype, int64_t done,
                                const RunListener& listener);

  const std::string& path() const { return files_.path(); }

  struct Step {
    int64_t step;  // counted from 1
    double loss, seconds, rate;
  };
  // `ends`: a loss that is no number is told elsewhere, and ends the run.
  Status Add(const Step& step, bool ends);
  Status AddHeldOut(int64_t step, double loss);
  Status AddNoise(int64_t step, double ratio);

  Result<std::string> Save(const CheckpointInfo& info, std::span<const StoredTensor> tensors) {
    return files_.Save(info, tensors);
  }

  // Steps so far took another time than those to come.
  void ForgetSeconds() { seconds_.clear(); }
  double MedianSeconds() const;

 private:
  RunRecord(RunFiles files, const Training& training, const RunListener& listener)
      : files_(std::move(files)), steps_(training.config.steps), listener_(&listener) {}

  RunFiles files_;
  int64_t steps_;  // of the whole run
  const RunListener* listener_;
  bool any_ = false;             // step so far
  bool said_ = false;            // that losses are not finite
  std::vector<double> seconds_;  // of steps
};

}  // namespace heddle
