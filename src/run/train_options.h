// TrainOptions: what a run decides that is not in the plan.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "run/learning_rate.h"

namespace heddle {

struct TrainOptions {
  DType dtype = DType::kF64;  // of floating-point tensors: f64 or f32
  uint64_t seed = 1;
  double learning_rate = 1e-3;
  LearningRate schedule;
  int64_t total_steps = 1;      // of the whole run, for the schedule
  int64_t first_step = 0;       // steps done before
  int64_t first_sample = 0;     // samples seen before
  bool training = true;         // false: held-out samples, nothing is dropped
  bool keep_gradients = false;  // for those who compare them
};

}  // namespace heddle
