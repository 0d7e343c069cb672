#include "run/heartbeat.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"
#include "run/worker.h"

namespace heddle {

std::string PrintHeartbeat(const Heartbeat& beat) {
  return fmt::format("{} {} {}", beat.beats, beat.place, beat.cpu_milliseconds);
}

std::optional<Heartbeat> ParseHeartbeat(std::string_view text) {
  constexpr size_t kLongest = 3 * 21;
  if (text.size() > kLongest) return std::nullopt;
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.size() != 3) return std::nullopt;
  const auto beats = ParseInteger(words[0]);
  const auto place = ParseInteger(words[1]);
  const auto cpu = ParseInteger(words[2]);
  if (!beats || !place || !cpu || *beats < Heartbeat::kDone || *cpu < 0) return std::nullopt;
  if (!WorkerProgress::IsPlace(*place)) return std::nullopt;
  return Heartbeat{*beats, *place, *cpu};
}

}  // namespace heddle
