#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace heddle {
namespace {

// Letters inserted, dropped, replaced, or two neighbours exchanged (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = last[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, replaced});
      const bool exchanged = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (exchanged) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

// The code of a character of two or three bytes in UTF-8 that steers a terminal; 0: none.
uint32_t SteeringCode(std::string_view text) {
  const auto byte = [&](size_t k) { return k < text.size() ? uint8_t(text[k]) : uint8_t{0}; };
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return byte(1);
  if (byte(0) != 0xe2 || (byte(2) & 0xc0) != 0x80) return 0;
  const uint32_t code = 0x2000U | uint32_t(byte(1) & 0x3f) << 6 | uint32_t(byte(2) & 0x3f);
  const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return turns ? code : 0;
}

}  // namespace

bool IsPlainName(std::string_view name) {
  constexpr size_t kLongest = 64;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kLongest && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), plain);
}

std::string Printable(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const auto first = uint8_t(text[0]);
    size_t bytes = 1;
    if ((first < 0x20 || first == 0x7f) && kept.find(text[0]) == std::string_view::npos) {
      out += fmt::format("\\x{:02x}", first);
    } else if (const uint32_t code = SteeringCode(text)) {
      bytes = code < 0x100 ? 2 : 3;
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += text[0];
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += separator;
    joined += part;
  }
  return joined;
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || code != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> ParseReal(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || code != std::errc() || stop != end) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string GroupDigits(int64_t number) {
  std::string text = std::to_string(number);
  const size_t sign = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > sign + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string Counted(int64_t count, const char* one, const char* many) {
  return GroupDigits(count) + " " + (count == 1 ? one : many);
}

std::optional<std::string> NearestName(std::string_view name,
                                       std::span<const std::string> candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  if (name.size() > 256) return best;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string SuggestName(std::string_view name, std::span<const std::string> candidates) {
  std::string text;
  if (const auto nearest = NearestName(name, candidates)) {
    text = "did you mean \"" + *nearest + "\"? ";
  }
  constexpr size_t kMost = 24;
  const size_t shown = std::min(candidates.size(), kMost);
  text += "known: " + Join(candidates.first(shown), ", ");
  if (shown < candidates.size()) text += ", …";
  return text;
}

}  // namespace heddle
