#include "lab/block_work.h"

namespace heddle {

UpdateWork WorkOfUpdates(std::span<const BlockWork> blocks) {
  const auto count = static_cast<double>(blocks.size());
  UpdateWork work;
  double forward = 0, inputs_above = 0;
  for (const BlockWork& block : blocks) forward += block.forward;
  for (size_t s = blocks.size(); s-- > 0;) {
    const BlockWork& own = blocks[s];
    work.pipedream += (own.forward + own.backward_input + own.backward_weight) / count;
    work.randomized += (forward + inputs_above + own.backward_input + own.backward_weight) / count;
    inputs_above += own.backward_input;
  }
  return work;
}

}  // namespace heddle
