// TrainOptions: what a run decides that is not in the plan.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace heddle {

struct TrainOptions {
  DType dtype = DType::kF64;  // of floating-point tensors
  uint64_t seed = 1;
  double learning_rate = 1e-3;
  bool keep_gradients = false;  // for those who compare them
};

}  // namespace heddle
