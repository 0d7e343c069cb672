#include "cli/value_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/text.h"

namespace heddle {
namespace {

// `allowed` says in words what `is_allowed` holds for.
ValueCheck NumberThat(std::function<bool(double)> is_allowed, const std::string& allowed) {
  const auto check = [is_allowed = std::move(is_allowed), allowed](const std::string& text) {
    const auto value = ParseReal(text);
    if (!value) return fmt::format("\"{}\" is no number: {}", text, allowed);
    if (is_allowed(*value)) return std::string();
    return fmt::format("{} is out of range: {}", text, allowed);
  };
  return {check, allowed};
}

ValueCheck WholeNumber() {
  return {[](const std::string& text) {
            // the parser would read 010 as eight.
            const bool octal = text.size() > 1 && text[text[0] == '-' ? 1 : 0] == '0';
            if (ParseInteger(text) && !octal) return std::string();
            return fmt::format("\"{}\" is no whole number, or too large a one", text);
          },
          ""};
}

ValueCheck FiniteNumber() {
  return {[](const std::string& text) {
            if (ParseReal(text)) return std::string();
            return fmt::format("\"{}\" is no finite number", text);
          },
          ""};
}

}  // namespace

ValueCheck AtLeast(double least) {
  return NumberThat([least](double value) { return value >= least; },
                    fmt::format("{} or more", least));
}

ValueCheck Above(double bound) {
  return NumberThat([bound](double value) { return value > bound; },
                    fmt::format("above {}", bound));
}

ValueCheck Within(double least, double most) {
  return NumberThat([least, most](double value) { return value >= least && value <= most; },
                    fmt::format("{} to {}", least, most));
}

ValueCheck OneOf(std::vector<std::string> names) {
  const std::string listed = Join(names, " or ");
  return {[names = std::move(names)](const std::string& text) {
            if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
            return fmt::format("\"{}\" is unknown: {}", text, SuggestName(text, names));
          },
          listed};
}

void CheckNumbers(const Command& command) {
  for (const Option& option : command.options()) {
    const std::string type = option.type_name();
    if (type.starts_with("INT") || type.starts_with("UINT")) option.Check(WholeNumber());
    if (type.starts_with("FLOAT")) option.Check(FiniteNumber());
  }
  for (const Command& below : command.below()) CheckNumbers(below);
}

}  // namespace heddle
