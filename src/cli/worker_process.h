// Becoming heddle-worker, which links libtorch and stands beside this executable.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace heddle {

// Is the worker there? Not in a build without libtorch.
bool HasWorker();

// What the worker is asked, as one of its words. Names of files that are no UTF-8 cannot be said.
Result<std::string> WorkerRequest(const Json& request);

// Runs the worker beside this process, with its messages hidden, and returns what it printed. Lines
// that `takes` says true to, as they come, are not part of it. If it fails the error is the one
// that it printed, where --json is one of the words.
Result<std::string> OutputOfWorker(std::vector<std::string> words,
                                   const std::function<bool(const std::string& line)>& takes = {});

// Does not return unless it fails. The words after the worker's name.
Status BecomeWorker(std::vector<std::string> words);

}  // namespace heddle
