// JSON as text and back, without the parser and printer in every file that does so: json.dump() and
// Json::parse() cost each of them seconds of compile time. tools/check_layers refuses them
// elsewhere.
//
//   WriteFile(path, JsonText(json, 2) + "\n");
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace heddle {

// On one line unless `indent` is given. What is no UTF-8 is replaced; as ASCII, all other
// characters are escaped.
std::string JsonText(const Json& json, int indent = -1, bool ascii = false);

// On one line, for others to find again what they named; nothing where something is no UTF-8.
std::optional<std::string> ExactJsonText(const Json& json);

// Of text that a process of ours wrote; is_discarded() where that is no JSON. Files of others are
// read by ParseJson (json_field.h), which says what is wrong with them.
Json ParseJsonOrDiscard(std::string_view text);

}  // namespace heddle
