#include "base/version.h"

namespace heddle {

const char* const kVersion = HEDDLE_VERSION;

}  // namespace heddle
