#include "timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

Seconds Timeline::end() const {
  Seconds last;
  for (const TimelineEvent& event : events) last = std::max(last, event.end);
  return last;
}

Status Validate(const Timeline& timeline) {
  std::vector<Seconds> free_at(timeline.lanes.size(), Seconds{-1});
  std::vector<const TimelineEvent*> sorted;
  for (const TimelineEvent& event : timeline.events) sorted.push_back(&event);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->start < b->start || (a->start == b->start && a->end < b->end);
  });
  for (const TimelineEvent* event : sorted) {
    if (event->lane < 0 || event->lane >= static_cast<int32_t>(timeline.lanes.size())) {
      return BadInput("timeline", fmt::format("an event names lane {}", event->lane));
    }
    const Lane& lane = timeline.lanes[static_cast<size_t>(event->lane)];
    if (!(event->end >= event->start)) {  // nor is either not a number
      return BadInput("timeline", fmt::format("an event of {} ends before it starts", lane.name));
    }
    if (lane.kind != LaneKind::kCompute) continue;
    Seconds& free = free_at[static_cast<size_t>(event->lane)];
    // Clocks are doubles: allow what rounding can do.
    if (event->start.value < free.value - 1e-12 - 1e-9 * std::abs(free.value)) {
      return BadInput("timeline", fmt::format("two events of {} overlap at {}", lane.name,
                                              ToText(event->start)));
    }
    free = std::max(free, event->end);
  }
  return Ok();
}

}  // namespace heddle
