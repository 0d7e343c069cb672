// StraightPipeline: stages of equally many devices, for DAPPLE's search.
#pragma once

#include <optional>

#include "plan/baseline/dapple_search.h"

namespace heddle {

// The stages with the smallest pivot: max of a stage's compute over its devices and of the
// transfers, there and back, of all microbatches. Dynamic program over (state, devices in use);
// the first stage is placed fresh first. None when there are fewer states than stages.
// REQUIRES: stages >= 2, stages * each <= number of devices.
std::optional<DappleDecision> StraightPipeline(const DappleInput& input, int stages, int each);

}  // namespace heddle
