// The version of heddle, as CMakeLists.txt states it.
#pragma once

namespace heddle {

extern const char* const kVersion;  // "0.1.0"

}  // namespace heddle
