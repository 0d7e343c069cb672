// heddle share --trace: a stream of jobs, scheduled with and without crossover.
#pragma once

#include <string>

#include "cli/command.h"

namespace heddle {

Status ShareTrace(const std::string& path, int devices, const Terminal& terminal);

}  // namespace heddle
