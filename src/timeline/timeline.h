// Timeline: what happened when, simulated or measured, per device and per wire.
//
//   for (const TimelineEvent& e : timeline.events)
//     if (e.lane == lane) draw(e.start, e.end, timeline.labels[e.label]);
//
// Invariant: events of one exclusive lane do not overlap (Validate). Simulated and measured
// timelines have the same type, so that one can be laid over the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace heddle {

enum class LaneKind : uint8_t {
  kCompute,  // exclusive: what a device computes
  kNetwork,  // of a device: its transfers and collectives, which may overlap
};

struct Lane {
  std::string name;    // "a:0 compute"
  std::string device;  // "a:0"
  LaneKind kind = LaneKind::kCompute;
};

enum class EventKind : uint8_t {
  kForward,
  kBackward,        // whole, or with respect to inputs
  kBackwardWeight,  // with respect to weights, apart
  kUpdate,
  kOther,
  kTransfer,
  kCollective,
};
inline constexpr int kEventKindCount = 7;

struct TimelineEvent {
  int32_t lane = 0;
  EventKind kind = EventKind::kOther;
  int32_t label = 0;        // index into Timeline::labels
  int32_t microbatch = -1;  // -1: none
  int32_t repetition = 0;   // of the body
  Seconds start;
  Seconds end;
};

struct Timeline {
  std::string source;  // "simulated", "emulated" or "real"
  std::vector<Lane> lanes;
  std::vector<std::string> labels;
  std::vector<TimelineEvent> events;  // in order of their start

  Seconds end() const;
};

// Every lane index is valid, no event ends before it starts, exclusive lanes do not overlap.
Status Validate(const Timeline& timeline);

}  // namespace heddle
