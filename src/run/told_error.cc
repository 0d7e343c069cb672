#include "run/told_error.h"

#include "base/json_field.h"
#include "base/json_text.h"

namespace heddle {
namespace {

constexpr size_t kLongest = 4096;

std::string Cut(const std::string& text) { return text.substr(0, kLongest); }

}  // namespace

std::string TellError(const Error& error) {
  const Json json = {{"kind", static_cast<int>(error.kind)},
                     {"where", Cut(error.where)},
                     {"what", Cut(error.what)},
                     {"hint", Cut(error.hint)}};
  return JsonText(json);
}

std::optional<Error> HearError(std::string_view text) {
  constexpr size_t kEscaped = 6;  // bytes of one character at most
  if (text.size() > 4 * kEscaped * kLongest) return std::nullopt;
  const Json json = ParseJsonOrDiscard(text);
  const auto has_text = [&](const char* key) {
    return json.contains(key) && json[key].is_string();
  };
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_number_integer()) {
    return std::nullopt;
  }
  if (!has_text("where") || !has_text("what") || !has_text("hint")) return std::nullopt;
  const int64_t kind = json["kind"];
  if (kind < static_cast<int>(ErrorKind::kInternal) ||
      kind > static_cast<int>(ErrorKind::kParity)) {
    return std::nullopt;
  }
  return Error{static_cast<ErrorKind>(kind), Cut(json["where"]), Cut(json["what"]),
               Cut(json["hint"])};
}

}  // namespace heddle
