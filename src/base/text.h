// Text: the few string functions the parsers and error messages share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Words between runs of spaces and tabs.
std::vector<std::string_view> SplitWords(std::string_view text);

// Pieces between separators; "a,,b" has three, "" has one empty piece.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

std::string Join(std::span<const std::string> parts, std::string_view separator);

// The whole text as an integer, or nothing. No sign but '-', no spaces.
std::optional<int64_t> ParseInteger(std::string_view text);

// The whole text as a finite decimal number ("3", "+.5", "-1e-3"), or nothing.
std::optional<double> ParseReal(std::string_view text);

// Letters, digits, -, _ and ., at most 64 and not beginning with a dot: safe as part of a path.
bool IsPlainName(std::string_view name);
inline constexpr const char* kPlainName =
    "1 to 64 letters, digits, -, _ and ., not beginning with a dot";

// What a terminal would obey instead of showing, control characters and changes of direction, as
// \x1b or \u202e. Those in `kept` stay.
std::string Printable(std::string_view text, std::string_view kept = "");

// Digits in groups of three, for people: 1115394 -> "1,115,394".
std::string GroupDigits(int64_t number);

// "1 device", "1,024 devices".
std::string Counted(int64_t count, const char* one, const char* many);

// The candidate with the smallest edit distance, when it is close enough to be a likely typo.
std::optional<std::string> NearestName(std::string_view name,
                                       std::span<const std::string> candidates);

// "did you mean \"gpt\"? " when there is a near name, then "known: a, b, c".
std::string SuggestName(std::string_view name, std::span<const std::string> candidates);

}  // namespace heddle
