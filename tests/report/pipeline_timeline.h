// Timelines for the tests of this folder: a pipeline of four stages, without a simulator.
//
//   Timeline t = PipelineTimeline(OneFOneB(4, 8));      // forward 1 ms, backward 2 ms, update 1 ms
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "timeline/timeline.h"

namespace heddle {

using StageOrder = std::vector<std::pair<char, int>>;  // {'F', 3}: forward of microbatch 3

// Stage s runs stages - s - 1 forwards ahead, then one forward, one backward, and so on.
inline std::vector<StageOrder> OneFOneB(int stages, int microbatches) {
  std::vector<StageOrder> orders;
  for (int s = 0; s < stages; ++s) {
    StageOrder order;
    const int ahead = std::min(stages - s - 1, microbatches);
    for (int m = 0; m < ahead; ++m) order.emplace_back('F', m);
    for (int m = 0; m < microbatches; ++m) {
      if (m + ahead < microbatches) order.emplace_back('F', m + ahead);
      order.emplace_back('B', m);
    }
    orders.push_back(order);
  }
  return orders;
}

inline Timeline EmptyTimeline(int devices) {
  Timeline timeline;
  timeline.source = "simulated";
  timeline.labels = {"forward", "backward", "update", "activation", "gradient"};
  for (int d = 0; d < devices; ++d) {
    const std::string device = "a:" + std::to_string(d);
    timeline.lanes.push_back({device + " compute", device, LaneKind::kCompute});
    timeline.lanes.push_back({device + " network", device, LaneKind::kNetwork});
  }
  return timeline;
}

inline TimelineEvent EventAt(int lane, EventKind kind, int label, int microbatch, double start_ms,
                             double end_ms, int repetition = 0) {
  TimelineEvent event;
  event.lane = lane;
  event.kind = kind;
  event.label = label;
  event.microbatch = microbatch;
  event.repetition = repetition;
  event.start = Seconds{start_ms * 1e-3};
  event.end = Seconds{end_ms * 1e-3};
  return event;
}

// Each stage follows its order; a transfer between neighbours takes `transfer_ms` and is drawn
// on the sender's network lane.
inline Timeline PipelineTimeline(const std::vector<StageOrder>& orders, double transfer_ms = 0,
                                 double forward_ms = 1, double backward_ms = 2,
                                 double update_ms = 1) {
  const size_t stages = orders.size();
  Timeline timeline = EmptyTimeline(static_cast<int>(stages));
  std::vector<std::vector<double>> forward(stages + 1), backward(stages + 1);  // when it arrives
  std::vector<double> free_at(stages, 0);
  std::vector<size_t> next(stages, 0);
  for (size_t s = 0; s <= stages; ++s) {
    forward[s].assign(1000, s == 0 ? 0 : -1);
    backward[s].assign(1000, s == stages ? 0 : -1);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages; ++s) {
      if (next[s] == orders[s].size()) continue;
      const auto [what, microbatch] = orders[s][next[s]];
      const auto m = static_cast<size_t>(microbatch);
      const bool is_forward = what == 'F';
      const double ready = is_forward ? forward[s][m] : backward[s + 1][m];
      if (ready < 0) continue;
      const double start = std::max(free_at[s], ready);
      const double end = start + (is_forward ? forward_ms : backward_ms);
      const int lane = 2 * static_cast<int>(s);
      timeline.events.push_back(EventAt(lane,
                                        is_forward ? EventKind::kForward : EventKind::kBackward,
                                        is_forward ? 0 : 1, microbatch, start, end));
      const bool sends = is_forward ? s + 1 < stages : s > 0;
      if (sends && transfer_ms > 0) {
        timeline.events.push_back(EventAt(lane + 1, EventKind::kTransfer, is_forward ? 3 : 4,
                                          microbatch, end, end + transfer_ms));
      }
      (is_forward ? forward[s + 1][m] : backward[s][m]) = end + transfer_ms;
      free_at[s] = end;
      ++next[s];
      moved = true;
    }
  }
  for (size_t s = 0; s < stages && update_ms > 0; ++s) {
    timeline.events.push_back(EventAt(2 * static_cast<int>(s), EventKind::kUpdate, 2, -1,
                                      free_at[s], free_at[s] + update_ms));
  }
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return timeline;
}

}  // namespace heddle
