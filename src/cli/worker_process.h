// Becoming heddle-worker, which links libtorch and stands beside this executable.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace heddle {

// Does not return unless it fails. The words after the worker's name.
Status BecomeWorker(std::vector<std::string> words);

}  // namespace heddle
