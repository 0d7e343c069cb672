// What ranks say in the store: heartbeats, why one left, what it is. Whatever is read is the same
// once printed, and a place is one that a program may have.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/departure.h"
#include "run/heartbeat.h"
#include "run/run_identity.h"
#include "run/worker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto beat = heddle::ParseHeartbeat(text)) {
    HEDDLE_CHECK(heddle::ParseHeartbeat(heddle::PrintHeartbeat(*beat)) == beat);
    if (const auto place = heddle::WorkerProgress::Unpack(beat->place)) {
      HEDDLE_CHECK(place->step >= 0 && place->instruction >= 0);
      HEDDLE_CHECK(static_cast<int>(place->section) < heddle::kSectionCount);
    }
  }
  if (const auto left = heddle::ParseDeparture(text, 8)) {
    HEDDLE_CHECK(left->rank >= 0 && left->rank < 8);
    HEDDLE_CHECK(heddle::ParseDeparture(heddle::PrintDeparture(*left), 8).has_value());
  }
  if (const auto identity = heddle::ParseIdentity(text)) {
    HEDDLE_CHECK(heddle::ParseIdentity(heddle::PrintIdentity(*identity)) == identity);
    HEDDLE_CHECK(!heddle::Difference(*identity, *identity, "device 0"));
  }
  return 0;
}
