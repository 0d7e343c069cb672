#include "support/places.h"

namespace heddle {

const std::string& SourceDir() {
  static const std::string path = HEDDLE_SOURCE_DIR;
  return path;
}

const std::string& HeddleBinary() {
  static const std::string path = HEDDLE_BINARY;
  return path;
}

}  // namespace heddle
