// Files read and written whole, with errors that name them.
#pragma once

#include <string>

#include "base/result.h"

namespace heddle {

// Files larger than that are refused before they are read: data may be larger than descriptions.
inline constexpr size_t kMostDataBytes = size_t{1} << 30;
inline constexpr size_t kMostTextBytes = size_t{1} << 26;
Result<std::string> ReadFile(const std::string& path, size_t most_bytes = kMostDataBytes);

// The same of what others may have put there: a plain file of at most so many bytes, or an error.
// Neither links are followed nor pipes waited for.
Result<std::string> ReadRegularFile(const std::string& path, size_t most_bytes);

// The file is whole or as it was before: see atomic_file.h, which also writes piece by piece.
Status WriteFile(const std::string& path, const std::string& contents);

// Makes a directory and those around it, to survive a loss of power. Ok if it is there.
Status MakeDirectories(const std::string& path);

}  // namespace heddle
