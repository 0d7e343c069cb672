// Departure: what a rank that leaves puts into the store, or the store for it when its connection
// breaks. The first to leave is kept.
//
//   HEDDLE_RETURN_IF_ERROR(store.SetWill(kLeft, PrintDeparture({.rank = 2})));
//   HEDDLE_ASSIGN(const auto left, LookWhoLeft(store, ranks));       // by the others
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "run/meet/meeting_store.h"

namespace heddle {

inline constexpr const char* kLeft = "left";  // the key of the first that did

struct Departure {
  int32_t rank = 0;
  std::optional<Error> error = {};  // none: its connection broke
};
std::string PrintDeparture(const Departure& departure);
std::optional<Departure> ParseDeparture(std::string_view text, int32_t ranks);

// Nobody has, unless it says who. What is no departure counts as an error.
Result<std::optional<Departure>> LookWhoLeft(MeetingStore& store, int32_t ranks);

}  // namespace heddle
