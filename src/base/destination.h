// Destinations: can what will be written later be written at all? Asked at the start, so that hours
// of work do not end at a directory that is not there.
//
//   HEDDLE_RETURN_IF_ERROR(CheckWritable("plan.json"));
//   HEDDLE_RETURN_IF_ERROR(CheckRoom("runs/a/checkpoints", 3 * bytes, "its checkpoints"));
//
// They leave nothing behind. What is true now may be false later: whoever writes still looks.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace heddle {

// A file of this name can be made or replaced, in the way of atomic_file.h. Ok for "".
Status CheckWritable(const std::string& path);

// The disk of a path, or of the nearest directory around it that is there, has so many bytes free.
// Ok where the system does not say.
Status CheckRoom(const std::string& path, int64_t bytes, const std::string& for_what);

// A file may become so large: `ulimit -f` permits it.
Status CheckFileSize(const std::string& path, int64_t bytes);

}  // namespace heddle
