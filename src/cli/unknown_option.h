// Options that a command does not know, found before anything else is said about its arguments, so
// that a misspelt flag is called one and not, say, a missing --model.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "base/result.h"

namespace heddle {

// A usage error about the first such option, with the nearest that the command has.
std::optional<Error> FindUnknownOption(const CLI::App& app, int argc, const char* const* argv);

// "lab race": the names from below `heddle` to the command; empty for `heddle` itself.
std::string PathOf(const CLI::App& command);

}  // namespace heddle
