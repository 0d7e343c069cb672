// Becoming heddle-worker, which links libtorch and stands beside this executable.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace heddle {

// Is the worker there? Not in a build without libtorch.
bool HasWorker();

// Runs the worker beside this process, with its messages hidden, and returns what it printed.
Result<std::string> OutputOfWorker(std::vector<std::string> words);

// Does not return unless it fails. The words after the worker's name.
Status BecomeWorker(std::vector<std::string> words);

}  // namespace heddle
