// Where the sources are and which heddle is tested. Compiled into one file, so that the rest of the
// tests is the same text for the compiler wherever the repository lies, and ccache knows it again.
#pragma once

#include <string>

namespace heddle {

const std::string& SourceDir();
const std::string& HeddleBinary();

}  // namespace heddle
