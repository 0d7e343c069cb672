#include "base/choices.h"

#include <fmt/format.h>

#include "base/text.h"

namespace heddle {

std::string Alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (size_t k = 0; k < names.size(); ++k) {
    const bool last = k + 1 == names.size();
    text += (k == 0 ? "" : last ? " or " : ", ") + names[k];
  }
  return text;
}

Error UnknownChoice(std::string where, std::string_view name,
                    const std::vector<std::string>& known) {
  std::string hint = Alternatives(known);
  if (const auto nearest = NearestName(name, known)) {
    hint = fmt::format("did you mean \"{}\"? {}", *nearest, hint);
  }
  return BadInput(std::move(where), fmt::format("\"{}\" is unknown", name), std::move(hint));
}

}  // namespace heddle
