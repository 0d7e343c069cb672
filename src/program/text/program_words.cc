#include "program/text/program_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace heddle {

LineWords::LineWords(std::string_view line, std::string where) : where_(std::move(where)) {
  size_t at = 0;
  while (at < line.size()) {
    if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
      ++at;
      continue;
    }
    if (line.substr(at, 2) == "//") break;
    if (line[at] == '"') {
      const size_t end = std::min(line.find('"', at + 1), line.size());
      unterminated_ = end == line.size();
      words_.push_back(line.substr(at + 1, end - at - 1));
      at = end + 1;
      continue;
    }
    const size_t end = std::min(line.find_first_of(" \t\r\"", at), line.size());
    words_.push_back(line.substr(at, end - at));
    at = end;
  }
}

bool LineWords::Accept(std::string_view word) {
  if (!NextIs(word)) return false;
  ++at_;
  return true;
}

Result<std::string_view> LineWords::Word(std::string_view expected) {
  if (done()) return Bad(fmt::format("the line ends where {} was expected", expected));
  return Take();
}

Result<int64_t> LineWords::Integer(std::string_view expected, int64_t least, int64_t most) {
  HEDDLE_ASSIGN(const std::string_view word, Word(expected));
  const auto value = ParseInteger(word);
  if (!value) return Bad(fmt::format("found \"{}\", expected {}", word, expected));
  if (*value < least || *value > most) {
    return Bad(fmt::format("{} {} is out of range", expected, *value),
               fmt::format("expected {} to {}", GroupDigits(least), GroupDigits(most)));
  }
  return *value;
}

Status LineWords::Expect(std::string_view word) {
  if (Accept(word)) return Ok();
  if (done()) return Bad(fmt::format("the line ends where \"{}\" was expected", word));
  return Bad(fmt::format("found \"{}\", expected \"{}\"", Peek(), word));
}

Status LineWords::End() const {
  if (unterminated_) return Bad("the closing '\"' is missing");
  if (done()) return Ok();
  return Bad(fmt::format("unexpected \"{}\" at the end of the line", Peek()));
}

Error LineWords::Bad(std::string what, std::string hint) const {
  return BadInput(where_, std::move(what), std::move(hint));
}

bool IsProgramName(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
}

}  // namespace heddle
