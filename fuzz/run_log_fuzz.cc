// Lines of a run's log: read line by line, a torn last one left out; what is read can be written.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "run/store/run_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto log = heddle::ParseRunLog(text, "fuzz");
  if (!log.ok()) return 0;
  HEDDLE_CHECK(static_cast<std::ptrdiff_t>(log.value().size()) ==
               std::count(text.begin(), text.end(), '\n'));
  std::string written;
  for (const heddle::Json& line : log.value()) written += line.dump() + "\n";
  const auto again = heddle::ParseRunLog(written, "written");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value() == log.value());
  return 0;
}
