// Json and JsonField by name, for headers that only mention them: the library's own header costs a
// second of compile time in every file. json_field.h has the whole.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace heddle {

using Json = nlohmann::ordered_json;
class JsonField;

}  // namespace heddle
