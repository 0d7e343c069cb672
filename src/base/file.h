// Files read and written whole, with errors that name them.
#pragma once

#include <string>

#include "base/result.h"

namespace heddle {

Result<std::string> ReadFile(const std::string& path);

// Writes to a temporary file beside `path`, then renames: the file is whole or absent.
Status WriteFile(const std::string& path, const std::string& contents);

}  // namespace heddle
