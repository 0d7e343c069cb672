#include "plan/order/chain_steps.h"

#include "plan/order/pipe_channels.h"

namespace heddle {

std::vector<ChainStep> ChainSteps(const PipeShape& shape) {
  const PipeChannels channels(shape);
  std::vector<ChainStep> steps;
  int before = -1;
  const auto add_message = [&](int channel, int cut, bool backward) {
    if (channel < 0) return;
    ChainStep step{shape.CutSeconds(cut, backward), shape.stages + channel, before, true};
    before = static_cast<int>(steps.size());
    steps.push_back(step);
  };
  const auto add_work = [&](WorkKind kind, int place) {
    steps.push_back(
        {shape.Seconds(kind, place), shape.chunks[place].stage, before, false, kind, place});
    if (kind != WorkKind::kWeight) before = static_cast<int>(steps.size()) - 1;
  };
  for (int k = 0; k < shape.places(); ++k) {
    if (k > 0) add_message(channels.forward[k - 1], k - 1, false);
    add_work(WorkKind::kForward, k);
  }
  for (int k = shape.places(); k-- > 0;) {
    add_work(shape.split ? WorkKind::kInput : WorkKind::kBackward, k);
    if (shape.split) add_work(WorkKind::kWeight, k);
    if (k > 0) add_message(channels.backward[k - 1], k - 1, true);
  }
  return steps;
}

int MachineCount(const PipeShape& shape) { return shape.stages + PipeChannels(shape).count; }

}  // namespace heddle
