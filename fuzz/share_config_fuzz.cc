// What a share is told: its configuration, and the letters of jobs that join, which anybody may
// write. Whatever is read is written back and read again as the same; a job's name leads nowhere.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_field.h"
#include "base/text.h"
#include "run/share/share_config.h"

namespace {

using heddle::JsonField;

void CheckLetter(const heddle::Json& json) {
  const auto job = heddle::ShareJobFromJson(JsonField(json, "fuzz"));
  if (!job.ok()) return;
  HEDDLE_CHECK(heddle::IsPlainName(job.value().name));
  const heddle::Json written = heddle::ShareJobToJson(job.value());
  const auto again = heddle::ShareJobFromJson(JsonField(written, "written"));
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(heddle::ShareJobToJson(again.value()) == written);
}

void CheckConfig(const heddle::Json& json) {
  const auto config = heddle::ShareConfigFromJson(JsonField(json, "fuzz"));
  if (!config.ok()) return;
  const heddle::Json written = heddle::ShareConfigToJson(config.value());
  const auto again = heddle::ShareConfigFromJson(JsonField(written, "written"));
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(heddle::ShareConfigToJson(again.value()) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto json = heddle::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  CheckLetter(json.value());
  CheckConfig(json.value());
  return 0;
}
