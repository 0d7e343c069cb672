// An Error as text, for processes that tell each other why they end.
//
//   TellError(BadInput("--rate", "is 0.5 at device 1"))    ->  {"kind":4,"where":"--rate",…}
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

std::string TellError(const Error& error);

// Nothing for what is none. Texts are cut where they are longer than anybody would read.
std::optional<Error> HearError(std::string_view text);

}  // namespace heddle
