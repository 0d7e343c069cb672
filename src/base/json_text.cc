#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace heddle {

std::string JsonText(const Json& json, int indent, bool ascii) {
  return json.dump(indent, ' ', ascii, Json::error_handler_t::replace);
}

std::optional<std::string> ExactJsonText(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::type_error&) {
    return std::nullopt;
  }
}

Json ParseJsonOrDiscard(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace heddle
