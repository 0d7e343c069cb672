// Measured times of ops: whatever is read is written back and read again as the same.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "cost/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto profile = heddle::ParseProfile(text, "fuzz");
  if (!profile.ok()) return 0;
  const std::string written = profile.value().ToJson().dump();
  const auto again = heddle::ParseProfile(written, "written");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value().ToJson().dump() == written);
  return 0;
}
