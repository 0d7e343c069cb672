// Program text: whatever parses can be checked and printed, and what was printed parses to the
// same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "program/check/check.h"
#include "program/text/program_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = heddle::ParseProgram(text, "fuzz");
  if (!program.ok()) return 0;
  const heddle::Verdict verdict = heddle::CheckProgram(program.value());
  HEDDLE_CHECK(verdict.memory.size() == program.value().devices.size());
  const std::string printed = heddle::PrintProgram(program.value());
  const auto again = heddle::ParseProgram(printed, "printed");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(heddle::PrintProgram(again.value()) == printed);
  return 0;
}
