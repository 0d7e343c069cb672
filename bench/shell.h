// Commands as a person would give them, for what is measured from outside.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace heddle {

// What it printed.
inline std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> block;
  size_t count = 0;
  while ((count = fread(block.data(), 1, block.size(), pipe)) > 0) {
    output.append(block.data(), count);
  }
  pclose(pipe);
  return output;
}

}  // namespace heddle
