// Options that a command does not know, found before anything else is said about its arguments, so
// that a misspelt flag is called one and not, say, a missing --model.
#pragma once

#include <optional>

#include "base/result.h"
#include "cli/command_line.h"

namespace heddle {

// A usage error about the first such option, with the nearest that the command has.
std::optional<Error> FindUnknownOption(const Command& root, int argc, const char* const* argv);

}  // namespace heddle
