#include "plan/order/pipe_channels.h"

#include <algorithm>
#include <map>
#include <utility>

namespace heddle {

PipeChannels::PipeChannels(const PipeShape& shape) {
  std::map<std::pair<int, int>, int> ids;
  const auto channel = [&](int from, int to, double seconds) {
    if (seconds <= 0) return -1;
    if (shape.half_duplex && from > to) std::swap(from, to);
    return ids.emplace(std::pair(from, to), static_cast<int>(ids.size())).first->second;
  };
  for (int k = 0; k + 1 < shape.places(); ++k) {
    const int from = shape.chunks[k].stage;
    const int to = shape.chunks[k + 1].stage;
    forward.push_back(channel(from, to, shape.CutSeconds(k, false)));
    backward.push_back(channel(to, from, shape.CutSeconds(k, true)));
  }
  count = static_cast<int>(ids.size());
}

}  // namespace heddle
