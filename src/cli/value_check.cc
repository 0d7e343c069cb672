#include "cli/value_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/text.h"

namespace heddle {
namespace {

// `allowed` says in words what `is_allowed` holds for.
CLI::Validator NumberThat(std::function<bool(double)> is_allowed, const std::string& allowed) {
  const auto check = [is_allowed = std::move(is_allowed), allowed](std::string& text) {
    const auto value = ParseReal(text);
    if (!value) return fmt::format("\"{}\" is no number: {}", text, allowed);
    if (is_allowed(*value)) return std::string();
    return fmt::format("{} is out of range: {}", text, allowed);
  };
  return CLI::Validator(check, allowed);
}

CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](std::string& text) {
        // CLI11 would read 010 as eight.
        const bool octal = text.size() > 1 && text[text[0] == '-' ? 1 : 0] == '0';
        if (ParseInteger(text) && !octal) return std::string();
        return fmt::format("\"{}\" is no whole number, or too large a one", text);
      },
      "");
}

CLI::Validator FiniteNumber() {
  return CLI::Validator(
      [](std::string& text) {
        if (ParseReal(text)) return std::string();
        return fmt::format("\"{}\" is no finite number", text);
      },
      "");
}

}  // namespace

CLI::Validator AtLeast(double least) {
  return NumberThat([least](double value) { return value >= least; },
                    fmt::format("{} or more", least));
}

CLI::Validator Above(double bound) {
  return NumberThat([bound](double value) { return value > bound; },
                    fmt::format("above {}", bound));
}

CLI::Validator Within(double least, double most) {
  return NumberThat([least, most](double value) { return value >= least && value <= most; },
                    fmt::format("{} to {}", least, most));
}

CLI::Validator OneOf(std::vector<std::string> names) {
  const std::string listed = Join(names, " or ");
  return CLI::Validator(
      [names = std::move(names)](std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        return fmt::format("\"{}\" is unknown: {}", text, SuggestName(text, names));
      },
      listed);
}

void CheckNumbers(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT")) option->check(WholeNumber());
    if (type.starts_with("FLOAT")) option->check(FiniteNumber());
  }
  for (CLI::App* below : command.get_subcommands({})) CheckNumbers(*below);
}

}  // namespace heddle
