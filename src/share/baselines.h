// Baselines: what else could be done with the jobs of a group, in the same simulator.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "share/share_plan.h"

namespace heddle {

struct ShareBaseline {
  std::string name;
  std::vector<Seconds> iteration;  // by job: of one step
  double gain = 0;                 // steps in the same time, over one after the other, minus 1
};

// One after the other; all at once without tokens or tickets, gradients after backward and while it
// goes on; crossover as the group has it; the best any could do. REQUIRES: at least two jobs.
Result<std::vector<ShareBaseline>> BaselinesOf(const ShareInputs& inputs, const ShareGroup& group);

}  // namespace heddle
