// checkpoint.json: whatever is read is written back and read again as the same.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "run/store/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto info = heddle::ParseCheckpointInfo(text, "fuzz");
  if (!info.ok()) return 0;
  const std::string written = heddle::CheckpointInfoToJson(info.value()).dump();
  const auto again = heddle::ParseCheckpointInfo(written, "written");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value() == info.value());
  return 0;
}
