// The six hand-written Programs of tests/golden/programs.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "program/text/program_text.h"
#include "support/places.h"

namespace heddle {

inline std::vector<std::string> GoldenPrograms() {
  return {"1-1f1b",           "2-uneven-shares", "3-spmd-matmul",
          "4-async-versions", "5-local-sgd",     "6-split-backward"};
}

inline std::string GoldenText(const std::string& name) {
  return ReadFile(SourceDir() + "/tests/golden/programs/" + name + ".heddle").value();
}

inline Program GoldenProgram(const std::string& name) {
  return ParseProgram(GoldenText(name), name).value();
}

}  // namespace heddle
