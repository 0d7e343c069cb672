// Heartbeat: what a rank says of itself to the others, some times a second, as text in the store.
//
//   PrintHeartbeat({17, progress.packed(), 250})    ->  "17 -1 250"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

struct Heartbeat {
  static constexpr int64_t kDone = -1;

  int64_t beats = 0;  // goes up, or kDone
  int64_t place = 0;  // WorkerProgress::packed
  int64_t cpu_milliseconds = 0;

  bool operator==(const Heartbeat&) const = default;
};

std::string PrintHeartbeat(const Heartbeat& beat);

// Nothing for what no rank would say: also places that no program has.
std::optional<Heartbeat> ParseHeartbeat(std::string_view text);

}  // namespace heddle
