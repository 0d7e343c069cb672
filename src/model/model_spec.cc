#include "model/model_spec.h"

#include <fmt/format.h>

#include "base/text.h"

namespace heddle {

std::string ModelSpec::ToString() const {
  std::string text = name;
  char separator = '?';
  for (const auto& [key, value] : values) {
    text += fmt::format("{}{}={}", separator, key, value);
    separator = '&';
  }
  return text;
}

Result<ModelSpec> ParseModelSpec(std::string_view text) {
  ModelSpec spec;
  const std::string where = fmt::format("model \"{}\"", text);
  const size_t mark = text.find('?');
  spec.name = std::string(text.substr(0, mark));
  if (spec.name.empty()) return BadInput(where, "no name", "e.g. gpt?layers=24, see heddle models");
  if (mark == std::string_view::npos) return spec;
  for (const std::string_view pair : SplitAt(text.substr(mark + 1), '&')) {
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return BadInput(where, fmt::format("\"{}\" is not key=value", pair),
                      "e.g. gpt?layers=24&hidden=1024");
    }
    const std::string key(pair.substr(0, equals));
    const auto value = ParseInteger(pair.substr(equals + 1));
    if (!value || *value < 0) {
      return BadInput(
          where, fmt::format("{} = \"{}\" is not a whole number", key, pair.substr(equals + 1)));
    }
    if (!spec.values.emplace(key, *value).second) {
      return BadInput(where, fmt::format("{} is given twice", key));
    }
  }
  return spec;
}

}  // namespace heddle
