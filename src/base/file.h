// Files read and written whole, with errors that name them.
#pragma once

#include <string>

#include "base/result.h"

namespace heddle {

Result<std::string> ReadFile(const std::string& path);

// The file is whole or as it was before: see atomic_file.h, which also writes piece by piece.
Status WriteFile(const std::string& path, const std::string& contents);

// Makes a directory and those around it, to survive a loss of power. Ok if it is there.
Status MakeDirectories(const std::string& path);

}  // namespace heddle
