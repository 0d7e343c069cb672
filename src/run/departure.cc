#include "run/departure.h"

#include <fmt/format.h>

#include "base/text.h"
#include "run/told_error.h"

namespace heddle {

std::string PrintDeparture(const Departure& departure) {
  return fmt::format("{} {}", departure.rank, departure.error ? TellError(*departure.error) : "");
}

std::optional<Departure> ParseDeparture(std::string_view text, int32_t ranks) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> rank = ParseInteger(text.substr(0, space));
  if (!rank || *rank < 0 || *rank >= ranks) return std::nullopt;
  const std::string_view rest = text.substr(space + 1);
  std::optional<Error> error = HearError(rest);
  if (!error && !rest.empty()) return std::nullopt;
  return Departure{static_cast<int32_t>(*rank), std::move(error)};
}

Result<std::optional<Departure>> LookWhoLeft(MeetingStore& store, int32_t ranks) {
  HEDDLE_ASSIGN(const std::optional<std::string> text, store.Look(kLeft));
  if (!text) return std::optional<Departure>();
  std::optional<Departure> departure = ParseDeparture(*text, ranks);
  if (departure) return departure;
  return Error{ErrorKind::kRunFailed, "store", "was told nonsense by another device", ""};
}

}  // namespace heddle
